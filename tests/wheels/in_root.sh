#!/bin/sh
# in_root.sh: what test_wheels.sh runs in a bare Debian, whose Python may be any.
#   /wheels     the wheels, and NumPy's
#   /tree       the tests
#   /torch      the packages of an environment with PyTorch, or nothing
#   /torch-own  PyTorch for this Python, if the environment has another Python, or nothing
set -eu
export OMP_NUM_THREADS=1 DEBIAN_FRONTEND=noninteractive
export PYTHONPYCACHEPREFIX=/pycache # as /torch-own has none for this Python

# run_test SCRIPT [ARGUMENT...]: 77 is a skip, whose reason the script prints.
run_test() {
    echo "== $*"
    status=0
    timeout 900 /venv/bin/python -W ignore -X faulthandler "$@" >/tmp/log 2>&1 || status=$?
    tail -n 3 /tmp/log
    [ $status = 0 ] || [ $status = 77 ] || {
        cat /tmp/log
        exit 1
    }
}

for tool in cc c++ gcc clang cmake make; do
    ! command -v $tool || exit 1
done
echo "127.0.0.1 localhost $(hostname)" >/etc/hosts # as on an installed system
python3 -m venv /venv
site=$(echo /venv/lib/python3.*/site-packages)
pip="/venv/bin/pip --disable-pip-version-check install -q --no-index --find-links /wheels"
with_torch=no
if [ -e /torch/torch ] && ls /wheels/lockstep_dp_torch-*; then
    with_torch=yes
fi
start=$(date +%s)
$pip lockstep-dp
[ $with_torch = no ] || $pip --no-deps lockstep-dp-torch
seconds=$(($(date +%s) - start))
echo "== installed in $seconds s"
[ $seconds -lt 60 ]

cd /tree/python/lockstep/tests
for name in test_averager test_errors test_group test_lifetimes stress_interrupts; do
    run_test $name.py
done
# The quickstart, which is left out, needs the program.
run_test test_docs.py Docstrings Module Types
run_test /tree/two_hosts.py without
apt-get install -q -y --no-install-recommends libucx0 iproute2 >/dev/null
run_test /tree/two_hosts.py with

if [ $with_torch = no ]; then
    echo "not tested: lockstep-dp-torch; there is no wheel of it, or no PyTorch"
    exit 0
fi
# After the wheels' NumPy, and for the processes that tests start.
printf '%s\n' /torch-own /torch >"$site/torch.pth"
export PYTHONPATH="$site"
cd /tree/python/tests
for name in backend operations errors example shared_buckets symmetric sync_batch_norm \
    launchers; do
    run_test test_$name.py
done
LOCKSTEP_SOURCE=/tree run_test /tree/tests/hosts/test_torch.py Torch.test_torchrun
