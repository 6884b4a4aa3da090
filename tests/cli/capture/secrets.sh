#!/bin/bash
# What is secret stays here: planted in variables, git, the kernel's command line, mounts, the driver's parameters and files, it is in
# no output of capture, run, report or an error, as it stands or in base64 at any alignment, percent or hexadecimal form.
# timeout: 600
. "$TOP/tests/common.inc"
need git jq base64 od tar zstd
top=$PWD out=$PWD/out
mkdir out
# Secrets are made here, so that no file of the repository holds anything that looks like one. After those of a kind named "path" come
# names of persons and places: --identify shows them, and messages may.
: >secrets.txt
plant() { # CLASS [BEGINNING [LENGTH]]: a new $secret
    planted=$((${planted:-0} + 1))
    secret=${2:-}$(echo "planted $planted" | sha256sum | tr 0-5 K-P | cut -c "1-${3:-20}")
    printf '%s %s\n' "$1" "$secret" >>"$top/secrets.txt"
}
# Every form of every secret of secrets.txt, one a line, a tab, its class and the secret: as it is, in hexadecimal, percent and base64
# form. Of base64 three alignments, without the letters that depend on what is before and after it.
cat >encode.awk <<'ENDAWK'
BEGIN {
    for (i = 1; i < 256; i++) ord[sprintf("%c", i)] = i
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
}
function base64(bytes, n, out, i, bits, have) {
    for (i = 1; i <= n; i++) {
        bits = bits * 256 + bytes[i]; have += 8
        while (have >= 6) {
            have -= 6
            out = out substr(letters, int(bits / 2 ^ have) % 64 + 1, 1)
            bits = bits % 2 ^ have
        }
    }
    return out
}
function form(text) { print text "\t" $1 " " $2 }
{
    lower = upper = percent = ""
    n = length($2)
    for (i = 1; i <= n; i++) {
        h = sprintf("%02x", ord[substr($2, i, 1)])
        lower = lower h; percent = percent "%" h
    }
    form($2); form(lower); form(toupper(lower)); form(percent); form(toupper(percent))
    for (pad = 0; pad < 3; pad++) {
        for (i = 1; i <= pad; i++) bytes[i] = 120
        for (i = 1; i <= n; i++) bytes[pad + i] = ord[substr($2, i, 1)]
        text = substr(base64(bytes, pad + n), int((pad * 8 + 5) / 6) + 1)
        form(text); gsub(/\+/, "-", text); gsub(/\//, "_", text); form(text)
    }
}
ENDAWK
clean() { # FORMS FILE...
    forms=$1 && shift
    cut -f 1 "$forms" >needles.txt
    hits=$(grep -raoF -f needles.txt "$@" | sort -u) || :
    [ -z "$hits" ] && return
    while read -r hit; do
        awk -F '\t' -v hit="$hit" 'hit == substr(hit, 1, length(hit) - length($1)) $1 {
            print substr(hit, 1, length(hit) - length($1)) " " $2 }' "$forms"
    done <<<"$hits" | sort -u | head -n 60 >&2
    fail "a secret is shown"
}
percent() {
    od -An -v -tx1 "$1" | tr ' ' %
}
repro() { # with the variables that other programs would obey
    env LD_LIBRARY_PATH="${loader:-$library_path}" LD_PRELOAD="$preload" "$REPRO" "$@"
}
# ---- planted in variables: not on the list, on it by name, by value ----
plant variable ghp_ 36 && export GITHUB_TOKEN=$secret
plant variable hf_ 34 && export HF_TOKEN=$secret HUGGING_FACE_HUB_TOKEN=$secret
plant variable "" 40 && export AWS_SECRET_ACCESS_KEY=$secret WANDB_API_KEY=$secret
plant variable && export PGPASSWORD=$secret KUBERNETES_PASSWORD=$secret MASTER_PASSWORD=$secret
plant variable && export HTTP_PROXY="http://user:$secret@proxy.example:3128" https_proxy="http://user:$secret@proxy.example:3128"
plant variable && export ALL_PROXY="socks5h://$secret@proxy.example" ftp_proxy="ftp://:$secret@proxy.example"
plant variable eyJ && export SLURM_JWT=$secret
plant variable && export SLURM_JOB_COMMENT="key $secret" PMIX_SECURITY_KEY=$secret PMI_SHARED_SECRET=$secret
plant variable && export OMPI_MCA_orte_hnp_uri="1;tcp://$secret:4" PMIX_SERVER_URI="prte.0;tcp4://$secret:5"
plant name && export NCCL_AUTH_TOKEN=$secret
plant name && export CUDA_LICENSE_KEY=$secret NVIDIA_Password=$secret
plant name && export UCX_USER_PASS=$secret OMPI_MCA_btl_secret=$secret
plant value ghp_ 36 && export NCCL_DEBUG=$secret
plant value glpat- && library_path=/usr/lib:/opt/$secret/lib
plant value && preload="/lib/none.so?token=$secret"
plant value && export CUDA_CACHE_PATH="https://user:$secret@cache.example/x"
plant value && export NCCL_TOPO_FILE="https://cache.example/x?sig=$secret"
plant value && export NCCL_NET_PLUGIN="user:$secret@cache.example/plugin"
plant value AKIA 16 && export UCX_LOG_FILE=/tmp/$secret
plant value "" 40 && export FI_PROVIDER_PATH=/opt/$secret
plant value eyJ 30 && export NVIDIA_DRIVER_CAPABILITIES=$secret
plant value && export OMPI_MCA_btl_tcp_link="PASSWORD=$secret"
plant value && export XLA_FLAGS="--xla_dump_to=x --passwd $secret"
plant value && export TORCH_LOGS="api_key: $secret"
plant value hf_ 34 && export SLURM_JOB_ID=7 SLURM_JOB_PARTITION=$secret
plant value && export OMP_PLACES="-----BEGIN PRIVATE KEY-----
$secret"
plant value nvapi- && export TF_XLA_FLAGS="--key=$secret" WORLD_SIZE=1 RANK=$secret
plant value && export MKL_VERBOSE="Authorization: Basic $secret"
plant value && coded=$(printf 'bob:%s' "$secret" | base64 -w 0)
export NCCL_A="pw=$secret" NCCL_B="passcode: $secret" NCCL_C="{\"auth\":\"$coded\"}"
plant value "" 28 && export NCCL_D="$secret" NCCL_E="https%3A%2F%2Fbob%3A$secret%40host%2F" NCCL_F="pa%73%73word=$secret"
plant value ghp_ 20 && NCCL_G=$(printf '%s' "$secret" | base64 -w 0) && export NCCL_G
plant value dckr_pat_ 36 && export UCX_A="$secret"
plant value xapp-1-A0- 20 && export UCX_B="$secret" UCX_C="http://$secret.webhook.example/$secret"
plant path && export NCCL_HOSTID="node17-$secret" NCCL_DEBUG_FILE="/gpfs/users/$secret/nccl.log" UCX_D="$secret@corp.example"
plant path && export UCX_E="/scratch/$secret/x:/u/$secret/y"
plant path && export MASTER_ADDR="$secret.example" TORCHELASTIC_RUN_ID=$secret SLURM_CLUSTER_NAME=$secret HOSTNAME=$secret
plant path && export NCCL_COMM_ID="$secret:77" KUBERNETES_SERVICE_HOST=$secret

# ---- persons and places: the home, and a project in it where everything runs ----
plant path && HOME=$top/people/$secret
mkdir -p "$HOME/lib"
export HOME XDG_CONFIG_HOME="$HOME/.config" XDG_CACHE_HOME="$HOME/.cache" XDG_DATA_HOME="$HOME/.local/share"
export XDG_STATE_HOME="$HOME/.local/state"
export NCCL_GRAPH_FILE="$HOME/graph.xml" TORCH_HOME="$HOME/torch"
echo 'no library' >"$HOME/lib/libnccl.so.2"
plant path && export UCX_TLS="rc,@$secret,fe80::1:2"
plant path && project=$HOME/$secret

# ---- git: remotes, submodules, configuration, files ----
git init -q "$project"
cd "$project"
g() {
    git -c user.name=a -c user.email=a@b.example -c protocol.file.allow=always "$@"
}
echo one >code.c
echo one >text.c
echo KEEP=1 >.env
echo key >id_rsa
echo key >server.pem
echo key >deploy.key
plant git
cat >.gitmodules <<ENDMODULES
[submodule "sub"]
	path = sub
	url = https://oauth2:$secret@git.example/sub.git
ENDMODULES
git init -q sub
g -C sub commit -q --allow-empty -m one
plant git && git -C sub remote add origin "https://x:$secret@git.example/sub.git"
g add -A 2>/dev/null
g commit -q -m one
git tag v1
plant git && git remote add origin "https://user:$secret@git.example/one.git"
plant git && git remote add query "https://git.example/one.git?access_token=$secret"
plant git ghp_ 36 && git remote add alone "https://$secret@git.example/one.git"
plant git && git remote add ssh "ssh://git:$secret@git.example/one.git"
plant git && git remote set-url --push origin "ftp://me:$secret@git.example/push.git"
plant git && git remote add ftp "ftp://me:$secret@git.example/one.git"
plant git && git config http.extraHeader "Authorization: Basic $secret"
plant git && git config credential.helper "!echo $secret"
plant git && git config "url.https://u:$secret@git.example/.insteadOf" short: && git remote add short short:one.git
plant file && echo "DATABASE_PASSWORD=$secret" >>.env
plant file && printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n' "$secret" >id_rsa
plant file && printf -- '-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----\n' "$secret" >server.pem
plant file && echo "$secret" >deploy.key
plant file && echo "char *password = \"$secret\";" >code.c
plant file && echo "$secret" >untracked.key
plant file && echo "$secret" >sub/inside.txt
plant path && git remote add local "$HOME/$secret/one.git"
echo two >text.c

# ---- the kernel's and the engine's files: a record of this machine with other contents ----
"$REPRO" capture --record "$top/tree" >/dev/null
t=$top/tree
account=$t/var/run/secrets/kubernetes.io/serviceaccount
mkdir -p "$t/proc/self" "$t/proc/1" "$t/proc/driver/nvidia" "$t/run" "$account" "$t/sys/dev/block/8:1" "$t/etc/podinfo"
{
    printf 'BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet iommu=pt '
    plant kernel && printf 'rd.luks.key=%s ' "$secret"
    plant kernel && printf 'cifs.pass=%s nfsroot=host,password=%s ' "$secret" "$secret"
    plant kernel ghp_ 36 && printf 'nvidia.NVreg_RegistryDwords=%s ' "$secret"
    plant kernel && printf 'nvidia.NVreg_Token=%s mlx5_core.auth_key=%s ' "$secret" "$secret"
    plant kernel && printf 'nvidia.%s=%s nvidia-drm.%s=1 mlx5_core.%s=1 ' "$secret" "$secret" "$secret" "$secret"
    plant kernel && printf 'modprobe.blacklist=%s pci=%s isolcpus=%s mem=%s mitigations=auto,%s ' "$secret" "$secret" "$secret" "$secret" "$secret"
    plant kernel && printf 'init=/sbin/init -- --token %s\n' "$secret"
} >"$t/proc/cmdline"
{
    plant path && s=/srv/$secret
    echo "20 1 0:30 / / rw,relatime - overlay overlay rw,lowerdir=$s/l1:$s/l2,upperdir=$s/diff,workdir=$s/work"
    echo "21 20 0:22 / /proc rw - proc proc rw"
    plant mount && echo "22 20 0:40 / /mnt/a rw - cifs //server.example/share rw,vers=3.0,username=u,password=$secret,addr=10.0.0.1"
    plant mount && echo "23 20 0:41 / /mnt/b rw - ceph admin:$secret@1.2.3.4:/ rw,name=admin,secret=$secret"
    plant mount && echo "24 20 0:42 / /mnt/c rw - fuse.rclone https://u:$secret@store.example/b rw,user_id=0"
    plant mount && s=$secret
    echo "25 20 0:43 / /mnt/d rw - fuse.s3fs s3fs?key=$s rw,credentials=$s,mode=0755,size=1m,data=ok,cache=$s$s"
    plant mount hf_ 34 && echo "30 20 0:50 / /mnt/$secret rw - tmpfs tmpfs rw,size=1m"
    plant mount && echo "31 20 0:51 / /srv/pass=$secret rw - ext4 /dev/vg-$secret rw"
    plant mount && echo "32 20 0:52 / /mnt/e rw - fuse.$secret fuse.$secret rw,mode=$secret"
    plant mount ghp_ 16 && echo "33 20 0:53 / /mnt/f rw - nfs4 filer:/x rw,fsc=$secret,sec=$secret,cache=$secret,vers=$secret,proto=tcp"
    plant path && echo "34 20 0:54 / /data/users/$secret rw - ext4 /dev/$secret rw"
    plant path && printf '35 20 0:55 / /opt/line\\012%s rw - tmpfs tmpfs rw\n' "$secret"
    plant path && echo "26 20 8:1 /home/$secret/data /data rw - ext4 /dev/mapper/vg-$secret rw"
    plant path && echo "27 20 8:1 / /home/$secret rw - ext4 /dev/sda1 rw"
} >"$t/proc/self/mountinfo"
# The document shows the mounts that hold places; and what could not be read here is read there.
jq '.states = {} | .answers["place temporary"].path = "/data" | .answers["place store"].path = "/mnt/c" |
    .answers["place workdir"].path = "/mnt/d"' "$t/.repro/live.json" >live.json && mv live.json "$t/.repro/live.json"
plant engine && printf 'PATH=/bin\0container=podman\0API_TOKEN=%s\0' "$secret" >"$t/proc/1/environ"
plant engine && printf 'engine="podman-4.3.1"\nimage="robot:%s@registry.example/team/image:1"\ntoken="%s"\n' "$secret" "$secret" \
    >"$t/run/.containerenv"
plant engine && echo "$secret" >"$account/token"
plant path && echo "$secret" >"$account/namespace"
cp -r "$t/var/run/secrets" "$t/run/"
plant path && echo "0::/user.slice/$secret.scope/docker/$secret" >"$t/proc/self/cgroup"
plant driver && printf 'EnableMSI: 1\nRegistryDwords: "password=%s"\nRmMsg: "ok"\n' "$secret" >"$t/proc/driver/nvidia/params"
plant path && printf 'MAJOR=8\nMINOR=1\nDEVNAME=sda1\nDEVTYPE=partition\nPARTN=1\nPARTNAME=%s\n' "$secret" >"$t/sys/dev/block/8:1/uevent"
{
    plant recorded ghp_ 36 && printf 'NCCL_DEBUG=%s\0' "$secret"
    plant recorded && printf 'HTTP_PROXY=http://u:%s@p.example\0NCCL_SECRET=%s\0MY_TOKEN=%s\0' "$secret" "$secret" "$secret"
    printf 'OMP_NUM_THREADS=3\0'
} >"$t/proc/self/environ"

secrets=$(wc -l <"$top/secrets.txt")
[ "$secrets" -ge 40 ] || fail "only $secrets secrets"
cd "$top"
awk -f encode.awk secrets.txt >all.txt
grep -v "$(printf '\t')path " all.txt >credentials.txt

# The search finds what it looks for, wherever it begins.
found=$(sed -n '20s/^[a-z]* //p' secrets.txt)
grep "$found" all.txt | cut -f 1 >needles.txt
for pad in "" a ab abc abcd; do
    printf '%s%s!' "$pad" "$found" >seen.txt
    for form in "cat" "base64 -w 0" "basenc --base64url -w 0" "od -An -v -tx1" "percent"; do
        $form seen.txt | tr -d ' \n' >form.txt
        grep -qF -f needles.txt form.txt || fail "the search does not know '$form' after '$pad'"
    done
done

# ---- capture ----
cd "$project"
repro capture >"$out/page.txt" 2>"$out/page.err"
repro capture --json --repo sub --digests -o "$top/file.json" --record "$out/record" >"$out/all.json" 2>"$out/all.err"
repro capture --json --root "$out/record" >"$out/again.json" 2>"$out/again.err"
loader=$HOME/lib repro capture --json --record "$out/loader" >"$out/loader.json" 2>"$out/loader.err"
repro capture --root "$t" >"$out/tree.txt" 2>"$out/tree.err"
repro capture --json --root "$t" --record "$out/tree" >"$out/tree.json" 2>>"$out/tree.err"
repro capture --json --root "$out/tree" >"$out/tree2.json" 2>>"$out/tree.err"
cp "$top/file.json" "$out/"
# With --identify names show, and still no credentials.
mkdir "$top/clear"
repro capture --identify --json >"$top/clear/live.json" 2>"$top/clear/live.err"
cp -a "$t" "$top/plain" && rm -r "$top/plain/.repro" # with a record --identify is refused
repro capture --identify --json --root "$top/plain" >"$top/clear/tree.json" 2>"$top/clear/tree.err"

# ---- run: what it prints, the bundle, every member, the report ----
repro run bert_tiny_fp32 --threads 1 --steps 1 --set measure.warmup_steps=1 --set measure.repeats=1 --set train.accumulation_steps=1 \
    -o "$top/a.repro.tar.zst" >"$top/run.out" 2>"$top/run.err" || { cat "$top/run.err" >&2 && fail "no bundle"; }
zstd -qd "$top/a.repro.tar.zst" -o "$out/a.tar"
mkdir "$out/members"
tar -xf "$out/a.tar" -C "$out/members"
[ -s "$out/members/facts.json" ] && [ -s "$out/members/env/node0.before.json" ] || fail "the bundle lacks members"
repro report "$top/a.repro.tar.zst" --format md >"$out/report.md" 2>"$top/report.err" || { cat "$top/report.err" >&2 && fail "no report"; }

# ---- errors ----
mkdir "$top/said"
cp "$top/run.out" "$top/run.err" "$top/said/"
said() { # NAME ARGUMENT...
    name=$1
    shift
    ! repro "$@" >"$top/said/$name.txt" 2>&1 || fail "no failure: $*"
}
said output capture -o /nowhere/env.json
said record capture --record "$out"
said probe capture --probe none
said root capture --root /nowhere
said recipe run none
said key run bert_tiny_fp32 --set train.none=1
said verify verify text.c
(cd sub && echo '[core' >>.git/config && repro capture --json --probe git >"$out/broken.json" 2>"$out/broken.err")
echo "gitdir: $HOME/none" >"$HOME/.git"
(cd "$HOME/lib" && repro capture --json --probe git >"$out/gone.json" 2>"$out/gone.err")

cd "$top"
clean all.txt out
clean credentials.txt clear said

# Not everything is gone: what moves a number and is no secret is there.
jq -e '.probes.kernel.command_line.value == "iommu=pt"' out/tree.json >true.txt || fail "$(jq -c .probes.kernel.command_line out/tree.json)"
jq -e '.probes.launch.command | .state == "ok" and (.value | contains("--tmpfs '"'/mnt/<hidden>:size=1m'"'"))' out/tree.json >true.txt ||
    fail "$(jq .probes.launch.command out/tree.json)"
jq -e '.probes.git.workdir.changed_files.value | any(test("^M [0-9a-f]{64} "))' out/all.json >true.txt || fail "no digest of an ordinary file"
jq -e '.probes.storage.store.filesystem.value == "fuse.rclone"' out/tree.json >true.txt || fail "no mount of the store"
jq -e '.probes.environment.OMP_NUM_THREADS.value == "3"' out/tree.json >true.txt || fail "an ordinary variable is gone"
jq -e '.probes.environment | .NCCL_AUTH_TOKEN.state == "denied" and .NCCL_DEBUG.state == "denied"' out/all.json >true.txt ||
    fail "a withheld variable does not say so"
