#!/bin/sh
# A container, as far as a mount namespace and a host name are one; started by kubelet.py.
#   container.sh NAME USER:GROUP CODE CACHE HOSTS NUMBER SOURCE:PATH:MODE... COMMAND...
set -eu
name=$1 user=$2 code=$3 cache=$4 hosts=$5 number=$6
shift 6
echo "$name" >/proc/sys/kernel/hostname
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mount --rbind /proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
# A Python that is installed for root alone has to be seen by the pod's user.
chmod a+x /mnt/root/root
rm -rf /mnt/root/run && mkdir -p /mnt/root/run /mnt/root/opt/tidings
mount --bind "$cache" /mnt/root/opt/tidings
cat "$hosts" >/mnt/root/etc/hosts
# As the image has it; Spark wants a home.
echo "tidings:x:$(echo "$user" | cut -d: -f1):$(echo "$user" | cut -d: -f2)::/tmp:/usr/sbin/nologin" >>/mnt/root/etc/passwd
mkdir -p /mnt/root/tmp
mount -t tmpfs tmpfs /mnt/root/tmp
while [ "$number" -gt 0 ]; do
    source=${1%%:*} rest=${1#*:}
    path=${rest%%:*} mode=${rest#*:}
    case "$path" in /var/run/*) path=${path#/var} ;; esac # a link, which would lead out of the root
    mkdir -p "/mnt/root$path"
    mount --bind "$source" "/mnt/root$path"
    [ "$mode" = rw ] || mount -o remount,bind,ro "/mnt/root$path"
    number=$((number - 1))
    shift
done
mkdir -p "/mnt/root$code"
mount --bind "$code" "/mnt/root$code"
mount -o remount,bind,ro "/mnt/root$code"
mount -o remount,ro /mnt/root
cd /
exec /usr/sbin/chroot --userspec="$user" /mnt/root "$@"
