// Compiled by V8 while it runs; `--max-inlined-bytecode-size=0` keeps functions apart.
"use strict";
const sleeps = new Int32Array(new SharedArrayBuffer(4));
const { Worker, isMainThread, workerData } = require("worker_threads");
let round = 0;

function burn(value) {
    for (let round = 0; round < 200000; round++) {
        value = (Math.imul(value ^ (value >>> 13), 0x5bd1e995) + round) | 0;
    }
    return value;
}

function leaf(x) {
    // Until all is compiled.
    if (x < 0) return x;
    switch (round++ % 4) {
        case 0:
            Atomics.wait(sleeps, 0, 0, 1);
            return x;
        case 1:
            Atomics.add(woken, 0, 1);
            Atomics.notify(woken, 0);
            return x;
        default:
            return burn(x);
    }
}

function f01(x) {
    const kept = [x, x + 1];
    return f02(x + 1) + kept[x & 1];
}

function f02(x) {
    const kept = [x, x + 2];
    return f03(x + 1) + kept[x & 1];
}

function f03(x) {
    const kept = [x, x + 3];
    return f04(x + 1) + kept[x & 1];
}

function f04(x) {
    const kept = [x, x + 4];
    return f05(x + 1) + kept[x & 1];
}

function f05(x) {
    const kept = [x, x + 5];
    return f06(x + 1) + kept[x & 1];
}

function f06(x) {
    const kept = [x, x + 6];
    return f07(x + 1) + kept[x & 1];
}

function f07(x) {
    const kept = [x, x + 7];
    return f08(x + 1) + kept[x & 1];
}

function f08(x) {
    const kept = [x, x + 8];
    return f09(x + 1) + kept[x & 1];
}

function f09(x) {
    const kept = [x, x + 9];
    return f10(x + 1) + kept[x & 1];
}

function f10(x) {
    const kept = [x, x + 10];
    return f11(x + 1) + kept[x & 1];
}

function f11(x) {
    const kept = [x, x + 11];
    return f12(x + 1) + kept[x & 1];
}

function f12(x) {
    const kept = [x, x + 12];
    return f13(x + 1) + kept[x & 1];
}

function f13(x) {
    const kept = [x, x + 13];
    return f14(x + 1) + kept[x & 1];
}

function f14(x) {
    const kept = [x, x + 14];
    return f15(x + 1) + kept[x & 1];
}

function f15(x) {
    const kept = [x, x + 15];
    return f16(x + 1) + kept[x & 1];
}

function f16(x) {
    const kept = [x, x + 16];
    return f17(x + 1) + kept[x & 1];
}

function f17(x) {
    const kept = [x, x + 17];
    return f18(x + 1) + kept[x & 1];
}

function f18(x) {
    const kept = [x, x + 18];
    return f19(x + 1) + kept[x & 1];
}

function f19(x) {
    const kept = [x, x + 19];
    return f20(x + 1) + kept[x & 1];
}

function f20(x) {
    const kept = [x, x + 20];
    return leaf(x + 1) + kept[x & 1];
}

let woken = workerData;
if (isMainThread) {
    woken = new Int32Array(new SharedArrayBuffer(4));
    new Worker(__filename, { workerData: woken, execArgv: [] }).unref();
    const end = Date.now() + Number(process.argv[2]) * 1000;
    for (let i = 0; i < 30000; i++) f01(-1000);
    while (Date.now() < end) f01(1);
    process.exit(0);
} else {
    for (;;) Atomics.wait(woken, 0, Atomics.load(woken, 0));
}
