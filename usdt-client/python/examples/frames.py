"""A program to record: frames, zones, plots, messages, threads, coroutines and a generator.

It waits until somebody records it, does its work, and prints as JSON what it has marked:
`sudo syscollect record -- python frames.py 100`.
"""

import asyncio
import json
import sys
import threading
import time
from collections import Counter

import syscollect
from syscollect import frame, message, plot, zone

counts = Counter()
lock = threading.Lock()


def count(name):
    with lock:
        counts[name] += 1


@zone
def update(number):
    count("update")
    return sum(range(number))


@zone("parts")
def parts(most):
    for number in range(most):
        yield number


def work(frames):
    for number in range(frames):
        with zone("frame") as one:
            count("frame")
            one.value(number)
            update(number)
            try:
                with zone("checked"):
                    count("checked")
                    if number % 10 == 0:
                        raise ValueError(number)
            except ValueError:
                message(f"frame {number} failed")
                count("messages")
            plot("number", number)
            count("plots")
        frame()
        count("frames")
        time.sleep(0.001)


@zone("fetch")
async def fetch():
    count("fetch")
    with zone("decode"):
        await asyncio.sleep(0.001)


async def serve(frames):
    syscollect.trace_tasks()
    await asyncio.gather(*(fetch() for _ in range(frames)))


def main():
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    deadline = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 10)
    while not syscollect.enabled() and time.monotonic() < deadline:
        time.sleep(0.01)
    # The recorder finds the process's ring by its first event.
    message("begins")
    count("messages")
    time.sleep(0.2)
    workers = [threading.Thread(target=work, args=(frames,), name=f"worker {n}") for n in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for _ in parts(3):
        pass
    asyncio.run(serve(frames))
    print(json.dumps(counts))


main()
