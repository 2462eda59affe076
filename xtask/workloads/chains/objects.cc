// C++ as people write it: virtual calls, templates, lambdas behind std::function, containers that
// are destroyed, a callback from the standard library.
#include "chain.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace deep {

using Next = std::function<long(long)>;

struct Step {
	virtual ~Step() = default;
	virtual long go(long x) = 0;
};

template <long N>
FRAME_FUNCTION long kept(long x, const std::vector<std::string> &strings)
{
	return x + static_cast<long>(strings.size()) + N;
}

#define OBJECT_FRAME(name, next)                                                      \
	FRAME_FUNCTION long name(long x)                                              \
	{                                                                             \
		std::vector<std::string> strings(x % 3 + 1, std::string(30, 'a'));    \
		auto shared = std::make_shared<long>(x);                              \
		long y = next(x + 1);                                                 \
		KEEP(y);                                                              \
		return y + *shared + static_cast<long>(strings.size());               \
	}

OBJECT_FRAME(f20, leaf)
OBJECT_FRAME(f19, f20)
SMALL_FRAME(f18, f19)
OBJECT_FRAME(f17, f18)
OBJECT_FRAME(f16, f17)
FRAME(f15, f16, 100)
OBJECT_FRAME(f14, f15)
OBJECT_FRAME(f13, f14)
OBJECT_FRAME(f12, f13)
SMALL_FRAME(f11, f12)
OBJECT_FRAME(f10, f11)
OBJECT_FRAME(f09, f10)
OBJECT_FRAME(f08, f09)
FRAME(f07, f08, 2000)
OBJECT_FRAME(f06, f07)
OBJECT_FRAME(f05, f06)
OBJECT_FRAME(f04, f05)
SMALL_FRAME(f03, f04)

struct Second : Step {
	std::string name = std::string(50, 'n');
	FRAME_FUNCTION long f02(long x) { return f03(x) + static_cast<long>(name.size()); }
	long go(long x) override { return f02(x); }
};

FRAME_FUNCTION long f01(long x)
{
	Second step;
	long y = step.f02(x) + 1;
	KEEP(y);
	return y;
}

// Above the chain: what std::sort calls calls it.
FRAME_FUNCTION long sorts(const Next &next)
{
	std::vector<long> numbers{3, 1};
	std::sort(numbers.begin(), numbers.end(), [&](long a, long b) {
		long y = next(a);
		KEEP(y);
		return y != 0 && a < b;
	});
	return numbers[0];
}

} // namespace deep

int main(int count, char **words)
{
	uint64_t end = end_ns(count, words);

	start_waked_thread();
	while (clock_ns() < end)
		deep::sorts([](long x) { return deep::f01(x) + 1; });
	return 0;
}
