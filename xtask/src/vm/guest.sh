# Records a known load in the virtual machine, in the ways that load different programs.
cd /tmp || exit 1
export HOME=/tmp
exchange=/tmp/exchange
cp $exchange/syscollect $exchange/syscollect-load .
# QEMU's emulated TSC is the host's and runs at one rate, but its CPUID does not say so.
grep -q nonstop_tsc /proc/cpuinfo || {
	sed 's/^flags.*/& constant_tsc nonstop_tsc/' /proc/cpuinfo >cpuinfo
	mount --bind cpuinfo /proc/cpuinfo
}
./syscollect doctor >$exchange/doctor.txt 2>&1
record() {
	name=$1
	shift
	./syscollect record -d 3 -o "$name.syscap" "$@" >"$exchange/$name.txt" 2>&1 &&
		./syscollect info --json "$name.syscap" >"$exchange/$name.json" 2>>"$exchange/$name.txt" &&
		./syscollect export "$name.syscap" -o "$name.pftrace" >>"$exchange/$name.txt" 2>&1 &&
		touch "$exchange/$name.exported"
}
while :; do
	./syscollect-load ping-pong 3000 0 >/dev/null
	ls / >/dev/null
done &
load=$!
record default
record stacks --stacks samples,offcpu,wakers --cross-check 8
record bare --stacks none --freq 0
record one --pid $load
kill $load
echo finished >$exchange/finished
