#!/bin/sh
# by_qemu.sh ROOT WORK: the wheel for aarch64 under qemu-user, with the Python of ROOT, whose
# packages are unpacked and not set up. WORK has the wheels and the tests, as test_wheels.sh
# has put them there.
set -eu
root=$1 work=$2
site=$root/usr/local/lib/python3.11/dist-packages
platforms=
for minor in 17 27 28 31; do
    platforms="$platforms --platform manylinux_2_${minor}_aarch64"
done
mkdir -p "$site"
# shellcheck disable=SC2086  # words
"$work/venv/bin/pip" --disable-pip-version-check install -q --no-index --no-deps \
    --find-links "$work/wheels" --target "$site" --python-version 3.11 \
    --only-binary :all: $platforms numpy lockstep-dp

# Programs that Python starts as sys.executable are emulated, too.
cat >"$work/python" <<END
#!/bin/sh
exec qemu-aarch64 -0 $work/python -L $root -E PYTHONHOME=$root/usr \
    $root/usr/bin/python3.11 "\$@"
END
chmod +x "$work/python"

cd "$work/tree/python/lockstep/tests"
export PYTHONDONTWRITEBYTECODE=1
for name in averager errors group lifetimes; do
    echo "== aarch64, by qemu: test_$name.py"
    timeout 900 "$work/python" -W ignore "test_$name.py" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
    tail -n 3 "$work/log"
done
