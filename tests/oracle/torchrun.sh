#!/bin/sh
# Four processes of PyTorch's torchrun find each other, next to its own agent, which holds MASTER_PORT.
# usage: torchrun.sh REPRO SCRATCH VENV
set -eu
cd "$2"
REPRO_JOB_KEY=$("$1" launch key)
export REPRO_JOB_KEY
rm -f who.*
for run in 1 2; do # the second time as one of two jobs with the same default id
    # shellcheck disable=SC2016 # expanded by each process
    "$3/bin/torchrun" --no-python --nproc-per-node=4 --max-restarts=0 --master-port=$((29500 + run)) sh -c 'exec "$0" launch whoami --meet --json >who.$RANK' "$1"
    jq -s -e 'length == 4 and all(.[]; .launcher == "torchrun" and .world == 4 and .local_rank == .index) and (map(.members) | unique | length) == 1
        and .[0].rendezvous.source == "this host"' who.0 who.1 who.2 who.3 >torchrun.txt || { cat who.* >&2 && echo "torchrun: the processes do not agree" >&2 && exit 1; }
done
# The printed script, by two agents as if on two nodes: rank 0 is then found by MASTER_ADDR.
rm -rf bin who.*
mkdir bin
printf '#!/bin/sh\nexec "%s" launch whoami --meet --json >who.$RANK\n' "$1" >bin/repro
chmod +x bin/repro
"$1" launch torchrun --nodes 2 --ranks-per-node 2 >job.sh
export PATH="$PWD/bin:$3/bin:$PATH" HEAD=localhost
sh job.sh &
sh job.sh
wait $!
jq -s -e 'length == 4 and all(.[]; .launcher == "torchrun" and .world == 4 and .nodes == 2) and (map(.members) | unique | length) == 1
    and .[0].rendezvous.source == "MASTER_ADDR"' who.0 who.1 who.2 who.3 >torchrun.txt || { cat who.* >&2 && echo "torchrun: two agents do not agree" >&2 && exit 1; }
echo "torchrun: 4 processes agree, of one agent and of two"
