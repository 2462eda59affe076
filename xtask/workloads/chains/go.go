// Goroutines: their stacks lie in the heap and move when they grow. What the runtime does for them
// it does on the stacks of threads.
package main

import (
	"os"
	"runtime"
	"strconv"
	"time"
)

var round int
var woken = make(chan int)

//go:noinline
func burn(value uint64) uint64 {
	for round := uint64(0); round < 150000; round++ {
		value = (value^value>>29)*0xff51afd7ed558ccd + round
	}
	return value
}

//go:noinline
func leaf(x uint64) uint64 {
	round++
	switch round % 4 {
	case 0:
		time.Sleep(200 * time.Microsecond)
	case 1:
		woken <- round
	case 2:
		// The runtime works, and waits, on the thread's stack.
		runtime.GC()
	default:
		return burn(x)
	}
	return x
}

//go:noinline
func f01(x uint64) uint64 {
	var room [3]uint64
	room[x%3] = x
	y := f02(x + 1)
	return y + room[1]
}

//go:noinline
func f02(x uint64) uint64 {
	var room [4]uint64
	room[x%4] = x
	y := f03(x + 1)
	return y + room[1]
}

//go:noinline
func f03(x uint64) uint64 {
	var room [5]uint64
	room[x%5] = x
	y := f04(x + 1)
	return y + room[1]
}

//go:noinline
func f04(x uint64) uint64 {
	var room [6]uint64
	room[x%6] = x
	y := f05(x + 1)
	return y + room[1]
}

//go:noinline
func f05(x uint64) uint64 {
	var room [7]uint64
	room[x%7] = x
	y := f06(x + 1)
	return y + room[1]
}

//go:noinline
func f06(x uint64) uint64 {
	var room [8]uint64
	room[x%8] = x
	y := f07(x + 1)
	return y + room[1]
}

//go:noinline
func f07(x uint64) uint64 {
	var room [2]uint64
	room[x%2] = x
	y := f08(x + 1)
	return y + room[1]
}

//go:noinline
func f08(x uint64) uint64 {
	var room [3]uint64
	room[x%3] = x
	y := f09(x + 1)
	return y + room[1]
}

//go:noinline
func f09(x uint64) uint64 {
	var room [4]uint64
	room[x%4] = x
	y := f10(x + 1)
	return y + room[1]
}

//go:noinline
func f10(x uint64) uint64 {
	var room [5]uint64
	room[x%5] = x
	y := f11(x + 1)
	return y + room[1]
}

//go:noinline
func f11(x uint64) uint64 {
	var room [6]uint64
	room[x%6] = x
	y := f12(x + 1)
	return y + room[1]
}

//go:noinline
func f12(x uint64) uint64 {
	var room [7]uint64
	room[x%7] = x
	y := f13(x + 1)
	return y + room[1]
}

//go:noinline
func f13(x uint64) uint64 {
	var room [8]uint64
	room[x%8] = x
	y := f14(x + 1)
	return y + room[1]
}

//go:noinline
func f14(x uint64) uint64 {
	var room [2]uint64
	room[x%2] = x
	y := f15(x + 1)
	return y + room[1]
}

//go:noinline
func f15(x uint64) uint64 {
	var room [3]uint64
	room[x%3] = x
	y := f16(x + 1)
	return y + room[1]
}

//go:noinline
func f16(x uint64) uint64 {
	var room [4]uint64
	room[x%4] = x
	y := f17(x + 1)
	return y + room[1]
}

//go:noinline
func f17(x uint64) uint64 {
	var room [5]uint64
	room[x%5] = x
	y := f18(x + 1)
	return y + room[1]
}

//go:noinline
func f18(x uint64) uint64 {
	var room [6]uint64
	room[x%6] = x
	y := f19(x + 1)
	return y + room[1]
}

//go:noinline
func f19(x uint64) uint64 {
	var room [7]uint64
	room[x%7] = x
	y := f20(x + 1)
	return y + room[1]
}

//go:noinline
func f20(x uint64) uint64 {
	var room [8]uint64
	room[x%8] = x
	y := leaf(x + 1)
	return y + room[1]
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	go func() {
		for range woken {
		}
	}()
	for time.Now().Before(end) {
		f01(1)
	}
}
