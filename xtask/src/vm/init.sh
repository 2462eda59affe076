#!/bin/busybox sh
# First process of the virtual machine: the host's files read-only, memory over
# what must be writable, the exchange folder, then the recording.
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do
	/bin/busybox insmod "/modules/$module" || echo "cannot load $module"
done
plan9=trans=virtio,version=9p2000.L,msize=262144
/bin/busybox mount -t 9p -o "$plan9,ro,cache=loose" host /root || echo "cannot mount the host's files"
/bin/busybox mount -t proc proc /root/proc
/bin/busybox mount -t sysfs sys /root/sys
/bin/busybox mount -t devtmpfs dev /root/dev
/bin/busybox mount -t tmpfs tmp /root/tmp
/bin/busybox mount -t tmpfs run /root/run
/bin/busybox mkdir /root/tmp/exchange
/bin/busybox mount -t 9p -o "$plan9" exchange /root/tmp/exchange || echo "cannot mount the exchange folder"
/bin/busybox chroot /root /bin/sh /tmp/exchange/guest.sh
/bin/busybox poweroff -f
