/** Compiled by the virtual machine while it runs; no function is inlined (`dontinline`). */
public final class Chain {
    private static long round;
    private static final java.util.concurrent.SynchronousQueue<Long> WOKEN =
        new java.util.concurrent.SynchronousQueue<>();

    static long burn(long value) {
        for (long round = 0; round < 150_000; round++) {
            value = (value ^ value >> 29) * 0x7f51afd7ed558ccdL + round;
        }
        return value;
    }

    static long leaf(long x) {
        // Until all is compiled.
        if (x < 0) return x;
        try {
            switch ((int) (round++ % 4)) {
                case 0 -> Thread.sleep(1);
                case 1 -> WOKEN.put(x);
                default -> x = burn(x);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        return x;
    }

    static long f01(long x) {
        long[] kept = {x, x * 3};
        return f02(x + 1) + kept[(int) (x & 1)];
    }

    static long f02(long x) {
        long[] kept = {x, x * 3};
        return f03(x + 1) + kept[(int) (x & 1)];
    }

    static long f03(long x) {
        long[] kept = {x, x * 3};
        return f04(x + 1) + kept[(int) (x & 1)];
    }

    static long f04(long x) {
        long[] kept = {x, x * 3};
        return f05(x + 1) + kept[(int) (x & 1)];
    }

    static long f05(long x) {
        long[] kept = {x, x * 3};
        return f06(x + 1) + kept[(int) (x & 1)];
    }

    static long f06(long x) {
        long[] kept = {x, x * 3};
        return f07(x + 1) + kept[(int) (x & 1)];
    }

    static long f07(long x) {
        long[] kept = {x, x * 3};
        return f08(x + 1) + kept[(int) (x & 1)];
    }

    static long f08(long x) {
        long[] kept = {x, x * 3};
        return f09(x + 1) + kept[(int) (x & 1)];
    }

    static long f09(long x) {
        long[] kept = {x, x * 3};
        return f10(x + 1) + kept[(int) (x & 1)];
    }

    static long f10(long x) {
        long[] kept = {x, x * 3};
        return f11(x + 1) + kept[(int) (x & 1)];
    }

    static long f11(long x) {
        long[] kept = {x, x * 3};
        return f12(x + 1) + kept[(int) (x & 1)];
    }

    static long f12(long x) {
        long[] kept = {x, x * 3};
        return f13(x + 1) + kept[(int) (x & 1)];
    }

    static long f13(long x) {
        long[] kept = {x, x * 3};
        return f14(x + 1) + kept[(int) (x & 1)];
    }

    static long f14(long x) {
        long[] kept = {x, x * 3};
        return f15(x + 1) + kept[(int) (x & 1)];
    }

    static long f15(long x) {
        long[] kept = {x, x * 3};
        return f16(x + 1) + kept[(int) (x & 1)];
    }

    static long f16(long x) {
        long[] kept = {x, x * 3};
        return f17(x + 1) + kept[(int) (x & 1)];
    }

    static long f17(long x) {
        long[] kept = {x, x * 3};
        return f18(x + 1) + kept[(int) (x & 1)];
    }

    static long f18(long x) {
        long[] kept = {x, x * 3};
        return f19(x + 1) + kept[(int) (x & 1)];
    }

    static long f19(long x) {
        long[] kept = {x, x * 3};
        return f20(x + 1) + kept[(int) (x & 1)];
    }

    static long f20(long x) {
        long[] kept = {x, x * 3};
        return leaf(x + 1) + kept[(int) (x & 1)];
    }

    /** In a virtual thread if there is a second word; found by name, for older compilers. */
    public static void main(String[] words) throws Exception {
        if (words.length < 2) {
            run(words);
            return;
        }
        Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
        Class<?> kind = Class.forName("java.lang.Thread$Builder");
        Runnable chain = () -> run(words);
        Thread thread = (Thread) kind.getMethod("start", Runnable.class).invoke(builder, chain);
        thread.join();
    }

    private static void run(String[] words) {
        Thread reader = new Thread(() -> {
            try {
                while (true) WOKEN.take();
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        reader.setDaemon(true);
        reader.start();
        long end = System.nanoTime() + Long.parseLong(words[0]) * 1_000_000_000L;
        long sum = 0;
        for (int i = 0; i < 30_000; i++) sum += f01(-1000);
        while (System.nanoTime() < end) sum += f01(1);
        if (sum == 1) System.out.println(sum);
    }
}
