# Runs the tests in the virtual machine, as root and as a user with two capabilities.
cd /tmp || exit 1
export HOME=/tmp
exchange=/tmp/exchange
mkdir programs results
cp $exchange/syscollect $exchange/syscollect-load $exchange/xtask programs
# The module for the DRM scheduler or why there is none, and where the kernel's modules are.
cp $exchange/*.ko $exchange/*.why $exchange/modules programs 2>/dev/null
chmod 755 programs programs/*
ip link set lo up 2>/dev/null
# QEMU's emulated TSC is the host's and runs at one rate, but its CPUID does not say so.
grep -q nonstop_tsc /proc/cpuinfo || {
	sed 's/^flags.*/& constant_tsc nonstop_tsc/' /proc/cpuinfo >cpuinfo
	mount --bind cpuinfo /proc/cpuinfo
}
tests=$(cat $exchange/tests)
# What root recorded is looked at outside, if anybody wants to.
test -d $exchange/captures && export SYSCOLLECT_TESTS_KEEP=1 TMPDIR=$exchange/captures
# GPUs without hardware; a kernel that lacks one says so in its tests.
for module in vgem virtio-gpu gpu-sched; do
	modprobe -d "$(cat $exchange/modules)" $module >>$exchange/log.txt 2>&1
done
# A console that blinks on the virtual GPU would add commands of its own.
for console in /sys/class/vtconsole/vtcon*; do
	grep -q "frame buffer" "$console/name" && echo 0 >"$console/bind"
done
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
/tmp/programs/syscollect doctor >$exchange/doctor.txt 2>&1
/tmp/programs/xtask privileged --emulated /tmp/programs --results $exchange/root.jsonl $tests >>$exchange/log.txt 2>&1

# The folder and the results must be this user's.
echo 2 >/proc/sys/kernel/perf_event_paranoid
mkdir user
touch user/results
chown -R 1000:1000 user
as_user="setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set -all,+cap_38,+cap_39 --inh-caps -all,+cap_38,+cap_39 --ambient-caps -all,+cap_38,+cap_39"
TMPDIR=/tmp/user $as_user /tmp/programs/syscollect doctor >$exchange/doctor-user.txt 2>&1
TMPDIR=/tmp/user HOME=/tmp/user $as_user /tmp/programs/xtask privileged --emulated /tmp/programs --results /tmp/user/results $tests \
	>>$exchange/log.txt 2>&1
cp user/results $exchange/user.jsonl
echo finished >$exchange/finished
