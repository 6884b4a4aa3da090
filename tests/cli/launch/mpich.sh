#!/bin/sh
# Four processes of mpiexec (Hydra of MPICH) find each other, by PMI on a descriptor and on a port, and with the printed script.
. "$TEST_DIR/common.inc"
need mpiexec.hydra jq
printf '#!/bin/sh\nexec mpiexec.hydra "$@"\n' >bin/mpiexec # by a link it would look for its proxy next to that
chmod +x bin/mpiexec
new_key
exit_of 0 mpiexec -n 4 repro run
agreed 4 mpich
exit_of 0 mpiexec -pmi-port -n 4 repro run
agreed 4 mpich
exit_of 0 mpiexec -n 1 repro run
agreed 1 mpich
unset REPRO_JOB_KEY
exit_of 2 mpiexec -n 2 "$REPRO" launch whoami --meet
says "before mpiexec"

echo localhost >hosts
"$REPRO" launch mpich --nodes 1 --ranks-per-node 3 >job.sh
exit_of 0 sh job.sh
agreed 3 mpich
