// Some twenty frames of ordinary C++: virtual calls, a callback of the C library, std::sort.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

static volatile unsigned sink;

struct Node {
    virtual ~Node() = default;
    virtual unsigned visit(unsigned depth, std::vector<unsigned> &values) = 0;
};

struct Leaf : Node {
    unsigned visit(unsigned, std::vector<unsigned> &values) override {
        std::sort(values.begin(), values.end(), [](unsigned a, unsigned b) { return (a ^ 77) < (b ^ 77); });
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
    }
};

struct Branch : Node {
    std::unique_ptr<Node> next;
    explicit Branch(std::unique_ptr<Node> next) : next(std::move(next)) {}
    unsigned visit(unsigned depth, std::vector<unsigned> &values) override {
        std::vector<unsigned> own(values);
        own[depth % own.size()] += depth;
        unsigned found = next->visit(depth + 1, own);
        return found + own[0];
    }
};

static Node *root;
static std::vector<unsigned> *shared;

static int compare(const void *a, const void *b) {
    static unsigned calls;
    if (++calls % 512 == 0)
        sink = sink + root->visit(0, *shared);
    return *static_cast<const unsigned *>(a) < *static_cast<const unsigned *>(b) ? -1 : 1;
}

int main(int, char **arguments) {
    std::unique_ptr<Node> tree = std::make_unique<Leaf>();
    for (int depth = 0; depth < 12; depth++)
        tree = std::make_unique<Branch>(std::move(tree));
    std::vector<unsigned> values(300), order(2000);
    root = tree.get();
    shared = &values;
    for (int round = std::atoi(arguments[1]); round > 0; round--) {
        for (std::size_t n = 0; n < values.size(); n++)
            values[n] = static_cast<unsigned>(std::rand());
        for (auto &value : order)
            value = static_cast<unsigned>(std::rand());
        std::qsort(order.data(), order.size(), sizeof(unsigned), compare);
    }
    std::printf("%u\n", sink);
}
