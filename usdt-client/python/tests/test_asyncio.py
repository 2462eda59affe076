"""Coroutines and tasks of asyncio."""

import asyncio
import unittest

import ring
from syscollect import _native, message, trace_loop, trace_tasks, zone

_native.hide()


class Tasks(unittest.TestCase):
    def setUp(self):
        _native.raise_()
        message("first")
        _native.take()

    def tearDown(self):
        _native.lower()

    def test_a_coroutine_is_an_async_zone_and_its_steps_are_zones(self):
        @zone("fetch")
        async def fetch():
            with zone("within"):
                await asyncio.sleep(0)
            return 7

        self.assertTrue(asyncio.iscoroutinefunction(fetch))
        self.assertEqual(asyncio.run(fetch()), 7)
        self.assertEqual(
            ring.lines(),
            [
                "async fetch",
                *["begin fetch at 0", "begin within at 1", "end 0"],
                *["begin fetch at 0", "begin within at 1", "end 1", "end 0"],
                "async end",
            ],
        )

    def test_a_zone_that_is_laid_aside_keeps_its_name(self):
        @zone
        async def fetch():
            for name in ("first", "second"):
                with zone(name) as one:
                    await asyncio.sleep(0)
                    one.name("renamed")
                    await asyncio.sleep(0)

        asyncio.run(fetch())
        lines = [line for line in ring.lines() if "fetch" not in line and "end" not in line]
        begins = ["begin first at 1"]
        once = [*begins, *begins, "zone name renamed", *begins, "zone name renamed"]
        twice = [begins[0], "zone name second"] * 2
        # A name that is said again is that of the part in which it is said.
        twice += ["zone name renamed", begins[0], "zone name renamed"]
        self.assertEqual(lines, once + twice)

    def test_a_loop_that_marks_its_waits_has_one_in_each_turn(self):
        async def main():
            trace_loop()
            trace_loop()
            for step in range(3):
                message(str(step))
                await asyncio.sleep(0)

        asyncio.run(main())
        lines = ring.lines()
        marks = [line for line in lines if line in ("waits", "turns")]
        self.assertEqual(marks, ["waits", "turns"] * (len(marks) // 2))
        at = [index for index, line in enumerate(lines) if line.startswith("message")]
        between = [lines[one + 2 : two] for one, two in zip(at, at[1:])]
        self.assertEqual(between, [["waits", "turns"]] * 2, lines)
        with self.assertRaisesRegex(TypeError, "object has no selector"):
            trace_loop(object())

    def test_tasks_by_a_factory(self):
        async def work(number):
            with zone("part"):
                await asyncio.sleep(0)
            return number

        async def main():
            trace_tasks()
            trace_tasks()
            return await asyncio.gather(*(work(number) for number in range(3)))

        self.assertEqual(asyncio.run(main()), [0, 1, 2])
        lines = ring.lines()
        tasks = [line for line in lines if line.startswith("async ") and "work" in line]
        # The loop makes tasks of its own when it ends.
        whole = [line for line in lines if line.startswith("async ") and line != "async end"]
        self.assertEqual((len(tasks), lines.count("async end")), (3, len(whole)))
        self.assertEqual(sum(line.startswith("begin part") for line in lines), 6)

    def test_a_cancelled_task_and_one_that_fails(self):
        async def wait():
            await asyncio.sleep(60)

        async def fail():
            raise ValueError("no")

        async def main():
            trace_tasks()
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            with self.assertRaises(ValueError):
                await asyncio.create_task(fail())

        asyncio.run(main())
        lines = ring.lines()
        self.assertIn("text raised CancelledError", lines)
        self.assertIn("text raised ValueError", lines)
        whole = [line for line in lines if line.startswith("async ") and line != "async end"]
        self.assertEqual(lines.count("async end"), len(whole))

    def test_a_coroutine_that_is_never_awaited_and_one_that_is_closed(self):
        @zone
        async def never():
            pass

        never().close()
        self.assertEqual(ring.lines(), [])

    def test_an_async_generator(self):
        @zone("stream")
        async def stream():
            for number in range(3):
                await asyncio.sleep(0)
                yield number

        async def main():
            return [number async for number in stream()]

        self.assertEqual(asyncio.run(main()), [0, 1, 2])
        lines = ring.lines()
        self.assertEqual(lines.count("async end"), lines.count("async stream"))


if __name__ == "__main__":
    unittest.main()
