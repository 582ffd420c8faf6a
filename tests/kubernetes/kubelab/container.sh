#!/bin/sh
# A container, as far as a mount namespace and a host name are one; started by kubelet.py.
#   container.sh NAME USER:GROUP CODE CACHE HOSTS NUMBER SOURCE:PATH:MODE... COMMAND...
set -eu
name=$1 user=$2 code=$3 cache=$4 hosts=$5 number=$6
shift 6
echo "$name" >/proc/sys/kernel/hostname
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/container
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/container
mount --rbind /proc /mnt/container/proc
mount --rbind /dev /mnt/container/dev
# A Python that is installed for root alone has to be seen by the pod's user.
home=~root
chmod a+x "/mnt/container$home"
rm -rf /mnt/container/run && mkdir -p /mnt/container/run /mnt/container/opt/tidings
mount --bind "$cache" /mnt/container/opt/tidings
cat "$hosts" >/mnt/container/etc/hosts
# As the image has it; Spark wants a home.
echo "tidings:x:$(echo "$user" | cut -d: -f1):$(echo "$user" | cut -d: -f2)::/tmp:/usr/sbin/nologin" >>/mnt/container/etc/passwd
mkdir -p /mnt/container/tmp
mount -t tmpfs tmpfs /mnt/container/tmp
while [ "$number" -gt 0 ]; do
    source=${1%%:*} rest=${1#*:}
    path=${rest%%:*} mode=${rest#*:}
    case "$path" in /var/run/*) path=${path#/var} ;; esac # a link, which would lead out of the root
    mkdir -p "/mnt/container$path"
    mount --bind "$source" "/mnt/container$path"
    [ "$mode" = rw ] || mount -o remount,bind,ro "/mnt/container$path"
    number=$((number - 1))
    shift
done
mkdir -p "/mnt/container$code"
mount --bind "$code" "/mnt/container$code"
mount -o remount,bind,ro "/mnt/container$code"
mount -o remount,ro /mnt/container
cd /
exec /usr/sbin/chroot --userspec="$user" /mnt/container "$@"
