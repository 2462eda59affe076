"""Zones, messages, plots and frames, as a collector would find them."""

import os
import sys
import threading
import time
import unittest

import ring
from syscollect import (
    _native,
    async_zone,
    enabled,
    frame,
    frame_image,
    message,
    plot,
    stop_functions,
    thread_name,
    trace_functions,
    zone,
)

_native.hide()


class Recorded(unittest.TestCase):
    def setUp(self):
        _native.raise_()
        message("first")
        _native.take()

    def tearDown(self):
        _native.lower()

    def assert_lines(self, *expected):
        self.assertEqual(ring.lines(), list(expected))


class Images(Recorded):
    def test_an_image_comes_from_a_thread_of_the_library(self):
        frame_image(bytes(16 * 8 * 4), 16, 8, frames_ago=1, flipped=True)
        frame()
        told = []
        for _ in range(500):
            told += ring.lines()
            if "image" in told:
                break
            time.sleep(0.01)
        self.assertEqual(sorted(told), ["blocks"] * 3 + ["frame -", "image"])


class Unrecorded(unittest.TestCase):
    def test_an_image_of_another_size_is_an_error_also_while_nobody_records(self):
        self.assertFalse(enabled())
        with self.assertRaisesRegex(ValueError, "four bytes for each pixel"):
            frame_image(bytes(16 * 8 * 4 - 1), 16, 8)


class Zones(Recorded):
    def test_a_zone_and_what_is_said_of_it(self):
        with zone("load") as one:
            one.text("file a")
            one.value(7)
            one.value(2.5, "ratio")
            one.value(-1)
            one.color(0xFF8000)
            one.name("other")
        self.assert_lines(
            "begin load at 0", "text file a", "value 7", "value ratio: 2.5", "value -1",
            "color ff8000", "zone name other", "end 0",
        )  # fmt: skip

    def test_places_are_those_of_the_with_blocks(self):
        line = sys._getframe().f_lineno + 1
        with zone("here"):
            pass
        (name, function, file, at) = next(iter(ring.places()))
        self.assertEqual((name, file, at), ("here", __file__, line))
        self.assertTrue(function.endswith("test_places_are_those_of_the_with_blocks"), function)

    def test_names_that_change_at_one_place_are_said_with_the_zone(self):
        for number in range(3):
            with zone(f"job {number}"):
                pass
        self.assert_lines(
            "begin job 0 at 0", "end 0", "begin job 0 at 0", "zone name job 1", "end 0",
            "begin job 0 at 0", "zone name job 2", "end 0",
        )  # fmt: skip

    def test_an_exception_ends_a_zone_and_is_named(self):
        with self.assertRaises(KeyError), zone("outer"), zone("inner"):
            raise KeyError("k")
        self.assert_lines(
            "begin outer at 0", "begin inner at 1", "text raised KeyError", "end 1",
            "text raised KeyError", "end 0",
        )  # fmt: skip

    def test_decorated_functions(self):
        @zone
        def plain(a, *, b=2):
            """Says."""
            return a + b

        @zone("named")
        def other():
            raise ValueError

        self.assertEqual((plain(1), plain.__doc__, plain.__name__), (3, "Says.", "plain"))
        self.assertRaises(ValueError, other)
        name = plain.__qualname__
        self.assert_lines(
            f"begin {name} at 0", "end 0", "begin named at 0", "text raised ValueError", "end 0",
        )  # fmt: skip

    def test_one_object_many_times(self):
        kept = zone("kept")

        def down(depth):
            with kept:
                if depth:
                    down(depth - 1)

        down(2)
        begins = [f"begin kept at {depth}" for depth in range(3)]
        self.assert_lines(*begins, "end 2", "end 1", "end 0")

    def test_deep_recursion(self):
        def down(depth):
            with zone("deep"):
                if depth:
                    down(depth - 1)

        before = sys.getrecursionlimit()
        sys.setrecursionlimit(3000)
        try:
            down(1000)
            self.assertRaises(RecursionError, down, 10_000)
        finally:
            sys.setrecursionlimit(before)
        _native.take()
        with zone("after"):
            pass
        self.assert_lines("begin after at 0", "end 0")

    def test_a_zone_of_a_generator_ends_nobody_elses(self):
        def generate():
            with zone("in generator"):
                yield 1

        numbers = generate()
        next(numbers)
        with zone("outer"):
            self.assertEqual(list(numbers), [])
            with zone("inner"):
                pass
        lines = ring.lines()
        self.assertEqual(lines[:2], ["begin in generator at 0", "begin outer at 1"])
        with zone("after"):
            pass
        self.assert_lines("begin after at 0", "end 0")

    def test_decorated_generators_lay_their_zones_aside(self):
        @zone("numbers")
        def generate():
            with zone("within"):
                got = yield 1
                yield got

        numbers = generate()
        self.assertEqual(next(numbers), 1)
        self.assertEqual(numbers.send("sent"), "sent")
        self.assertEqual(list(numbers), [])
        step = ["begin numbers at 0", "begin within at 1"]
        self.assert_lines(
            "async numbers", *step, "end 0", *step, "end 0", *step, "end 1", "end 0", "async end"
        )

    def test_a_generator_that_is_finished_on_another_thread(self):
        def generate():
            with zone("moves"):
                yield

        numbers = generate()
        with zone("outer"):
            next(numbers)
            thread = threading.Thread(target=lambda: list(numbers))
            thread.start()
            thread.join()
        self.assert_lines("begin outer at 0", "begin moves at 1", "end 0")

    def test_threads_have_their_names(self):
        def work():
            with zone("work"):
                pass

        threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = "\n".join(line for lines in ring.scenario().values() for line in lines)
        for number in range(4):
            self.assertIn(f"name worker {number}", told)
        self.assertEqual(told.count("begin work at 0"), 4)

    def test_a_child_begins_anew(self):
        with zone("parent"):
            child = os.fork()
            if child == 0:
                with zone("child"):
                    pass
                lines = ring.lines()
                os._exit(0 if lines == ["begin child at 0", "end 0"] else 1)
            _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        self.assert_lines("begin parent at 0", "end 0")

    def test_async_zones_end_anywhere(self):
        request = async_zone("request")
        request.__enter__()
        thread = threading.Thread(target=request.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        self.assert_lines("async request", "async end")


class Events(Recorded):
    def test_messages_plots_frames(self):
        message("hello")
        message("red", 0xFF0000)
        plot("queue", 3)
        plot("load", 0.5, "ms")
        frame()
        frame("physics")
        self.assert_lines(
            "message 000000", "said hello", "message ff0000", "said red", "plot queue 3",
            "plot load 0.5", "frame -", "frame physics",
        )  # fmt: skip

    def test_a_thread_can_be_named(self):
        def work():
            thread_name("my own")
            message("x")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        told = [line for lines in ring.scenario().values() for line in lines]
        self.assertIn("name my own", told)

    def test_odd_texts(self):
        message("a\ud800b")
        message("nul\0nul")
        message("")
        message("x" * 1_000_000)
        with zone("\udfff"), zone("é" * 500_000) as long:
            long.text("y" * 1_000_000)
        lines = ring.lines()
        self.assertIn("said nul\0nul", lines)
        self.assertTrue(any(line.startswith("said a\ufffd") for line in lines), lines[:4])
        self.assertTrue(all(len(line) < 5000 for line in lines))
        self.assertEqual(lines[-2:], ["end 1", "end 0"])

    def test_odd_numbers(self):
        class Index:
            def __index__(self):
                return 5

        for number in (True, 2**63, -(2**63), 2**64, -(10**400), float("nan"), Index()):
            plot("n", number)
        lines = ring.lines()
        self.assertEqual(lines[0], "plot n 1")
        self.assertEqual(lines[1:3], [f"plot n {2**63}", f"plot n {-(2**63)}"])
        self.assertEqual(lines[3:], [f"plot n {2.0**64}", "plot n -inf", "plot n nan", "plot n 5.0"])


class Functions(Recorded):
    def tearDown(self):
        stop_functions()
        super().tearDown()

    def test_all_functions(self):
        def inner():
            raise KeyError

        def outer():
            try:
                inner()
            except KeyError:
                return 1

        trace_functions()
        outer()
        stop_functions()
        outer()
        names = [line.removeprefix("begin ").rsplit(".", 1)[-1] for line in ring.lines()]
        begin = names.index("outer at 0")
        self.assertEqual(names[begin : begin + 4], ["outer at 0", "inner at 1", "end 1", "end 0"])
        self.assertNotIn("outer at 0", names[begin + 4 :])

    def test_only_functions_of_some_files(self):
        import textwrap

        def here():
            textwrap.dedent("x")

        trace_functions([__file__])
        here()
        stop_functions()
        here()
        names = [line.removeprefix("begin ").rsplit(".", 1)[-1] for line in ring.lines()]
        self.assertEqual(names, ["here at 0", "end 0"])
        self.assertRaises(TypeError, trace_functions, "path")


class Refused(unittest.TestCase):
    """The same errors whether somebody records or not."""

    def refuses(self):
        self.assertRaises(TypeError, zone, 1)
        self.assertRaises(TypeError, zone)
        self.assertRaises(TypeError, zone, b"bytes")
        self.assertRaises(TypeError, async_zone, None)
        self.assertRaises(TypeError, message, 1)
        self.assertRaises(TypeError, plot, "a", "1")
        self.assertRaises(TypeError, plot, 1, 1)
        self.assertRaises(TypeError, frame, 1)
        self.assertRaises(TypeError, thread_name, None)
        self.assertRaises(OverflowError, message, "a", -1)
        with zone("z") as one:
            self.assertRaises(TypeError, one.value, "7")
            self.assertRaises(TypeError, one.text, 7)

    def test_odd_arguments_off(self):
        self.assertFalse(enabled())
        self.refuses()

    def test_odd_arguments_on(self):
        _native.raise_()
        try:
            self.refuses()
        finally:
            _native.lower()

    def test_off_nothing_is_recorded(self):
        _native.take()
        with zone("a") as one:
            one.text("b")
        message("c")
        plot("d", 1)
        frame()
        self.assertEqual(ring.lines(), [])

    def test_a_recording_that_begins_or_ends_within_a_zone(self):
        with zone("off"):
            _native.raise_()
            with zone("on"):
                _native.lower()
        _native.raise_()
        _native.take()
        with zone("after"):
            pass
        _native.lower()
        lines = ring.lines()
        self.assertEqual([line for line in lines if "after" in line], lines[:1])


if __name__ == "__main__":
    unittest.main()
