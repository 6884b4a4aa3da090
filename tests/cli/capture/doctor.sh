#!/bin/sh
# doctor finds here what it can find everywhere, exits with 7 only for what stops every run, and reads records without trying anything.
. "$TOP/tests/common.inc"
finding() { # CHECK: its severity in out.txt, "" if there is none
    jq -r --arg check "$1" '.findings[] | select(.check == $check).severity' out.txt
}
is() { # CHECK SEVERITY
    [ "$(finding "$1")" = "$2" ] || fail "$1 is '$(finding "$1")' instead of '$2': $(cat out.txt)"
}
exit_of 0 "$REPRO" doctor --json
is key note
is store ''
is output ''
is monotonic ''
is worker "$("$REPRO" version --json | jq -r 'if .gpu_worker then "" else "note" end')"
[ -z "$(find "$HOME" -type f)" ] || fail "doctor made a file: $(find "$HOME" -type f)"
exit_of 0 "$REPRO" key new
exit_of 0 "$REPRO" doctor --json
is key ''

# What stops every run: the table first, then the message.
unusable() { # MODE: bad.pem
    chmod "$1" bad.pem
    exit_of 7 env REPRO_KEY=bad.pem "$REPRO" doctor
    words out.txt '^stop  ' | sed 's/  */ /g'
}
echo no key at all >bad.pem
unusable 644
unusable 600
printf -- '-----BEGIN %s KEY-----\nMC4CAQ\n-----END %s KEY-----\n' PRIVATE PRIVATE >bad.pem
unusable 600
cp "$XDG_CONFIG_HOME/repro/key.pem" bad.pem
unusable 644
chmod 600 bad.pem
exit_of 0 env REPRO_KEY=bad.pem "$REPRO" doctor
rm bad.pem
mkdir bad.pem
unusable 700
exit_of 0 "$REPRO" key new -o locked.pem --passphrase-fd 9 9<<END
a passphrase
END
exit_of 0 env REPRO_KEY=locked.pem "$REPRO" doctor --json </dev/null
is key ''
exit_of 7 env HOME=/dev/null/none XDG_CONFIG_HOME= "$REPRO" doctor
words out.txt '^stop  ' | sed 's/  */ /g'
words
exit_of 7 env -u HOME -u XDG_CONFIG_HOME "$REPRO" doctor
grep -q '^stop *signing key *neither HOME nor XDG_CONFIG_HOME is set  *export REPRO_KEY=FILE' out.txt || fail "without a home: $(cat out.txt)"
exit_of 7 env HOME=/dev/null/none XDG_CONFIG_HOME= "$REPRO" doctor --json
is key stop
[ "$(jq -r .error.exit out.txt)" = 7 ] || fail "the error is not in the document"
exit_of 7 env REPRO_STORE=/dev/null/none "$REPRO" doctor --json
is store stop
exit_of 0 env XDG_CACHE_HOME=/dev/null/none "$REPRO" doctor --json
is store note
exit_of 0 env XDG_CACHE_HOME=/proc/none "$REPRO" doctor --json # where root may write, and nobody can
is store note
mkdir gone
exit_of 7 sh -c 'cd gone && rmdir ../gone && "$REPRO" doctor --json'
is output stop
# one of several processes: no run, and no attempt in the ledger
exit_of 7 env RANK=3 LOCAL_RANK=3 WORLD_SIZE=8 "$REPRO" doctor --json
is launcher stop
key=$("$REPRO" launch key)
exit_of 0 env RANK=3 LOCAL_RANK=3 WORLD_SIZE=8 REPRO_JOB_KEY="$key" "$REPRO" doctor --json
is launcher note
exit_of 0 env SLURM_JOB_ID=1 SLURM_NTASKS=8 SLURM_PROCID=0 "$REPRO" doctor --json # a script under sbatch
is launcher note
exit_of 7 env SLURM_JOB_ID=1 SLURM_NTASKS=8 SLURM_PROCID=0 REPRO_JOB_KEY="$key" "$REPRO" doctor --json # that means several
is launcher stop
exit_of 7 env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2 "$REPRO" doctor --json
is launcher stop
exit_of 0 env SLURM_NTASKS=8 SLURM_PROCID=0 "$REPRO" doctor --json
is launcher ''
exit_of 0 env PMI_RANK=x PMI_SIZE=2 "$REPRO" doctor --json
is launcher ''
exit_of 0 env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 "$REPRO" doctor --json # mpirun's daemons
is launcher ''
for variables in "RANK=3 LOCAL_RANK=3 WORLD_SIZE=8" "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2" "PMI_RANK=1 PMI_SIZE=2" "PMI_ID=0 PMI_SIZE=2" \
    "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1" "RANK=0 WORLD_SIZE=2" "RANK=2 WORLD_SIZE=2"; do
    # shellcheck disable=SC2086 # words
    exit_of 2 env $variables "$REPRO" run bert_tiny_fp32 -o several.zst
    words
done
if [ -e several.zst ] || [ -n "$(find "$HOME" -name 'ledger*')" ]; then fail "a refused run left something"; fi

# A record: nothing of this machine, one line each, nothing that a terminal would obey.
mkdir -p machine/sys/kernel/mm/transparent_hugepage machine/sys/devices/system/cpu/cpufreq/policy0
echo 'always madvise [never]' >machine/sys/kernel/mm/transparent_hugepage/enabled
printf 'powersave\033[2J\n' >machine/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
exit_of 0 "$REPRO" doctor --root machine
words out.txt 'huge pages'
! grep -q "$(printf '\033')" out.txt || fail "an escape sequence shows"
exit_of 3 "$REPRO" doctor --root nowhere
exit_of 2 "$REPRO" doctor operand

# A driver that is played to the real worker: too old, its GPU taken by others; and one that hangs. Runs on the CPU go on.
"$REPRO" version --json | jq -e .gpu_worker >/dev/null && [ -e "$BUILD/fake/440/libnvidia-ml.so.1" ] || exit 0
exit_of 0 env LD_LIBRARY_PATH="$BUILD/fake/440" RP_FAKE_NVML="$TOP/tests/fake/v100_sxm2_8.txt" "$REPRO" doctor --json
is driver_age stop
is gpu_users slow
is gpu_throttling slow
is worker ''
exit_of 0 env LD_LIBRARY_PATH="$BUILD/fake/570" RP_FAKE_NVML="$TOP/tests/fake/h100_8.txt" "$REPRO" doctor --json
is driver_age ''
is gpu_users ''
is gpu_throttling ''
exit_of 0 env LD_LIBRARY_PATH="$BUILD/fake/570" RP_FAKE_NVML="$TOP/tests/fake/hang.txt" RP_GPU_TIMEOUT_MS=700 "$REPRO" doctor --json
is worker stop
