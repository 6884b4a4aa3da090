#!/bin/bash
# Executing PTX finds faults: each is one change of one source, or of the compiler's flags, compiled as everything else is. The fault "none" is
# none and has to pass. LONG=1: more of them; else that these can still be planted.
# timeout: 600
. "$TEST_DIR/common.inc"
cuda=$("$TOP/env/fetch-cuda.sh" --dir "${DEPS_DIR:-$BUILD/deps}")
[ -e "$cuda/lib/libnvrtc.so.12" ] && [ -x "$BUILD/gpu/nvrtc" ] || skip "there is no NVRTC"
[ -x "$BUILD/native/tests/cuda/test_cuda_ops" ] || skip "tests/cuda is not built"
mkdir -p tree
cp -r "$TOP/src" tree/
flags="-std=c++17 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Isrc -I."

replace() { # FILE OLD NEW: the first place where it is
    OLD=$2 NEW=$3 awk 'BEGIN {RS = "\001"} {i = index($0, ENVIRON["OLD"]); if (!i) exit 1
        printf "%s%s%s", substr($0, 1, i - 1), ENVIRON["NEW"], substr($0, i + length(ENVIRON["OLD"]))}' "$1" >patched || fail "'$2' is not in ${1##*/}: plant the fault elsewhere"
    cp patched "$1"
}
fault() { # NAME WHAT-IS-REPORTED UNIT FILE OLD NEW FLAGS OPERATIONS VARIABLE=VALUE...
    local name=$1 report=$2 unit=$3 file=$4 old=$5 new=$6 use=$7 operations=$8 status=0
    shift 8
    cp "$TOP/src/backend/cuda/$file" "tree/src/backend/cuda/$file"
    [ "$old" = "$new" ] || replace "tree/src/backend/cuda/$file" "$old" "$new"
    [ -n "$is_run" ] || return 0
    local from=gpu/device/compute_90 arch=compute_90 to=ptx/$unit capability=80
    rm -rf ptx ptxa && mkdir ptx ptxa
    [ "$unit" != gemm16_wgmma ] || from=gpu/checked/compute_90 arch=compute_90a to=ptxa/$unit capability=90
    for f in "$BUILD/$from"/*; do
        case ${f##*/} in *.*) ;; *) ln -s "$f" ptx/ ;; esac
    done
    rm -f "ptx/$unit"
    # shellcheck disable=SC2086 # words
    (cd tree && "$BUILD/gpu/nvrtc" "$cuda/lib/libnvrtc.so.12" "$arch" "src/backend/cuda/$unit.cu" "../$to" $use) >compiled.txt 2>&1 ||
        fail "$name does not compile: $(tail -n 3 compiled.txt)"
    cp "$TOP/src/backend/cuda/$file" "tree/src/backend/cuda/$file"
    # shellcheck disable=SC2086 # words
    (cd "$TOP" && env TAP_FIRST=1 LONG=0 PTX_STRICT=0 PTX_DIR="$OLDPWD/ptx" SHIM_CAPABILITY="$capability" OPS="$operations" "$@" \
        timeout 300 "$BUILD/native/tests/cuda/"${TEST:-test_cuda_ops}) >run.txt 2>&1 || status=$?
    if [ "$name" = none ]; then
        [ $status = 0 ] || { tail -n 20 run.txt >&2 && fail "without a fault something is found"; }
        return
    fi
    [ $status != 0 ] && [ $status != 124 ] || fail "$name is not found (status $status)"
    grep -q -e "$report" run.txt || { cat run.txt >&2 && fail "$name: found, but not as '$report'"; }
    echo "$name: $(grep -m 1 -e "$report" run.txt | cut -c 1-200)"
}
same='RP_DEVICE int rp_lane(void)'
element='element [0-9]* is'
is_run=1
fault none - rows lanes.cuh "$same" "$same" "$flags" "layernorm_forward residual_layernorm_forward row_sums"
fault index "$element" optim tree.cuh 'tile[lane * (columns + 1) + warp]' 'tile[lane * (columns + 1) + warp + 1]' "$flags" tree_sum
fault bounds 'of shared memory of' optim tree.cuh 'stack[top++ * columns] = v;' 'stack[(top++ + 4096) * columns] = v;' "$flags" tree_sum
fault contraction 'unknown instruction' rows rows.cu "$same" "$same" "${flags/-fmad=false/-fmad=true}" layernorm_backward
fault barrier 'nothing orders them' gemm gemm.cuh '__syncthreads(); /* the next stage is complete' '/* the next stage is complete' "$flags" gemm PTX_RACES=1
mixed() { # UNIT NAME WHAT-IS-REPORTED FILE OLD NEW VARIABLE=VALUE...: of mixed precision
    local unit=$1 name=$2 report=$3 file=$4 old=$5 new=$6
    shift 6
    TEST=test_cuda_$unit fault "$name" "$report" "$unit" "$file" "$old" "$new" "$flags" - "${unit^^}=80" "$@"
}
product() { # as mixed(), of products of matrices
    mixed gemm16 "$@"
}
wgmma_there=$([ -d "$BUILD/gpu/checked/compute_90a" ] && echo 1)
wgmma() { # NAME WHAT-IS-REPORTED FILE OLD NEW VARIABLE=VALUE...: of products that go on while the threads do
    local name=$1 report=$2 file=$3 old=$4 new=$5
    shift 5
    [ -n "$wgmma_there" ] || return 0 # ARCHS was given
    TEST="test_cuda_gemm16 wgmma" fault "$name" "$report" gemm16_wgmma "$file" "$old" "$new" "$flags" - "$@"
}
wgmma proxy 'without a fence of proxies' gemm16_wgmma.cu 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");' ';'
wgmma parity '\(nothing orders them\|are complete, and this thread\|waits for ever\)' gemm16_wgmma.cu 'mbarrier_wait(p.full, p.parity);' 'mbarrier_wait(p.full, p.parity ^ 1);' PTX_RACES=1
product trans differ tensor_core.cuh 'rp_ldmatrix_x4_trans(f,' 'rp_ldmatrix_x4(f,'
stored() { # NAME UNIT FILE OPERATIONS OLD NEW: of stored tensors
    TEST=test_cuda_stored fault "$1" "$element" "$2" "$3" "$5" "$6" "$flags" "$4" STORED=80
}
[ "${LONG:-0}" != 0 ] || is_run=
fault arguments "$element" optim ../../ops/ops.h 'float grad_scale, lr, beta1' 'float lr, grad_scale, beta1' "$flags" adam_update
mixed attention16 rescale differ attention16_forward.cuh 'factor[i >> 1 & 1];' 'factor[0];'
stored truncated whole_bf16 stored.cuh add_stored 'asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));' \
    'bits = (uint16_t)(__float_as_uint(x) >> 16);'
fault wait "$element" gemm gemm.cuh 'rp_copy_wait(STAGES - 2)' 'rp_copy_wait(STAGES - 1)' "$flags" gemm
product k-halves differ tensor_core.cuh '2 * slice + (lane >> 4)' '2 * slice + 1 - (lane >> 4)'
product bias differ gemm16.cuh '    if (gather == GEMM16_MATRIX && g->bias) {' '    x = g->f32 ? x : tc_value(tc_round(x, format), format);
    if (gather == GEMM16_MATRIX && g->bias) {'
mixed conv16 padding differ conv16.cuh ' && t.c < v->depth' ''
fault release 'nothing orders them' gemm device.h st.release.gpu.u32 st.relaxed.gpu.u32 "$flags" gemm RP_CUDA_GEMM=rotate PTX_RACES=1
fault fence 'nothing orders them' gemm device.h 'asm volatile("fence.acq_rel.gpu;" ::: "memory");' ';' "$flags" gemm \
    RP_CUDA_GEMM=rotate PTX_RACES=1
wgmma fence 'touched after the last wgmma.fence' gemm16_wgmma.cu 'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");' ';'
wgmma wait '\(nothing orders them\|without a fence of proxies\)' gemm16_wgmma.cu 'wgmma_wait(1);' 'wgmma_wait(2);' PTX_RACES=1
wgmma last-wait 'no wgmma.wait_group has waited for' gemm16_wgmma.cu '    wgmma_wait(0);' '    wgmma_wait(1);'
wgmma swizzle differ tensor_core.cuh '(piece % 8 ^ line % 8)' '(piece % 8 ^ line % 4)'
wgmma mode 'no descriptor of a matrix with the swizzle' gemm16_wgmma.cu '(uint64_t)1 << 62' '(uint64_t)2 << 62'
wgmma stride '\(differ\|of shared memory of\)' gemm16_wgmma.cu '(WGMMA_UNIT / 16) << 32' '(WGMMA_UNIT / 8) << 32'
wgmma lead differ gemm16_wgmma.cu '(TC_DEPTH * 128 / 16) << 16' '(TC_DEPTH * 64 / 16) << 16'
wgmma k-halves differ gemm16_wgmma.cu 'wgmma_multiply(sum, a, b, s);' 'wgmma_multiply(sum, a ^ (s->a_by_k ? 2 : 128), b ^ (s->b_by_k ? 2 : 128), s);'
wgmma columns differ gemm16.cuh 'column >= g->n' 'column > g->n'
wgmma rows differ gemm16_wgmma.cu '(unsigned)group * 64' '(unsigned)(1 - group) * 64'
wgmma unit 'within eight lines of its swizzle' gemm16_wgmma.cu '+ WGMMA_UNIT - 1) / WGMMA_UNIT * WGMMA_UNIT' '+ 128) / 128 * 128'
wgmma full 'nothing orders them' gemm16_wgmma.cu 'mbarrier_wait(p.full, p.parity);' ';' PTX_RACES=1
wgmma release 'nothing orders them' gemm16_wgmma.cu 'if (n > 0 && threadIdx.x % RP_WARP == 0)
            mbarrier_arrive(before);' 'if (threadIdx.x % RP_WARP == 0)
            mbarrier_arrive(p.empty);' PTX_RACES=1
wgmma empty '\(nothing orders them\|are complete, and this thread\)' gemm16_wgmma.cu 'mbarrier_wait(to.empty, to.parity ^ 1);' ';' PTX_RACES=1
wgmma arrivals 'waits for ever for phase 0' gemm16_wgmma.cu '(unsigned)i, copiers)' '(unsigned)i, copiers + 1)'
wgmma early '\(nothing orders them\|are complete, and this thread\)' gemm16_wgmma.cu '1 : WGMMA_COPIERS)' '1 : WGMMA_COPIERS - RP_WARP)' PTX_RACES=1
wgmma expect '\(nothing orders them\|copies more bytes than\)' gemm16_wgmma.cu 'mbarrier_expect(to.full, 4 * wgmma_stage_floats(s));' 'mbarrier_arrive(to.full);' PTX_RACES=1
wgmma bytes 'waits for ever for phase 0 .* 16 bytes are missing' gemm16_wgmma.cu '4 * wgmma_stage_floats(s));' '4 * wgmma_stage_floats(s) + 16);'
wgmma objects 'initialised without a fence of proxies' gemm16_wgmma.cu 'proxy_fence(); /* copies by tensor maps complete them */' ';'
wgmma boxes differ gemm16_wgmma.cu 'by_k ? row + i : k, barrier' 'by_k ? row : k, barrier'
wgmma landed '\(differ\|nothing orders them\|without a fence of proxies\)' gemm16_wgmma.cu 'rp_copy_wait(WGMMA_AHEAD);' ';' PTX_RACES=1
wgmma begin '\(nothing orders that before\|is not initialised\)' gemm16_wgmma.cu '    }
    __syncthreads();' '    }'
wgmma warps '\(nothing orders them\|are complete, and this thread\)' gemm16_wgmma.cu 'WGMMA_COMPUTERS / RP_WARP)' '1)' PTX_RACES=1
wgmma touched 'no wgmma.wait_group has waited for' gemm16_wgmma.cu '        wgmma_wait(1);' '        sum[0] = sum[0] + 0.0f;
        wgmma_wait(1);'
product columns differ gemm16.cuh 'column >= g->n' 'column > g->n'
product segment differ gemm16.cuh '(int)blockIdx.y * g->length' '(int)blockIdx.y * (g->length - 64)'
mixed attention16 gradient differ attention16_backward.cuh 'kept ? p * b->a->keep_scale : 0.0f' 'kept ? p : 0.0f'
stored unrounded-sum rows_f16 rows.cu residual_layernorm_forward 'rp_rounded4(rp_add4(z[half + c], v[c]))' 'rp_add4(z[half + c], v[c])'
stored unrounded-bias pointwise_f16 pointwise.cu tanh_backward 'rp_rounded(g[k] * fmaf(-t[k], t[k], 1.0f))' 'g[k] * fmaf(-t[k], t[k], 1.0f)'
mixed attention16 order differ attention16_backward.cuh '(p * (d - about.z)) * b->a->scale' 'p * ((d - about.z) * b->a->scale)'
mixed attention16 decisions differ attention16_forward.cuh 'bits[r] >> (4' 'bits[1 - r] >> (4'
mixed attention16 sums differ attention16_forward.cuh 'fmaf(f->sum[r], rescale[r], part)' 'f->sum[r] * rescale[r] + part'
mixed attention16 keys differ attention16_forward.cuh 'h->causal ? q + 1 : h->seq' 'h->causal ? q + 2 : h->seq'
mixed attention16 tiles 'nothing orders them' attention16_forward.cuh '__syncthreads(); /* tile n is complete, and the one before has been read */' ';' PTX_RACES=1
mixed attention16 copies differ attention16_forward.cuh 'rp_copy_wait(0);' ';'
mixed conv16 stride differ conv16.cuh 'to * stride != at' '0'
mixed conv16 phase differ conv16.cuh 'v->at_w + w * v->step' 'w * v->step'
mixed conv16 taps differ conv16.cuh 't.w < v->kernel_w && ' ''
stored early whole_f16 whole.cu round_stored 'v = rp_add4(v, rp_stored' 'v = rp_add4(rp_rounded4(v), rp_stored'
stored dropped rows_f16 rows.cu layernorm_backward 'd = rp_rounded(d);' ';'
stored swapped whole_f16 stored.cuh add_stored 'tc_value(v.y & 0xffff, RP_FORMAT)' 'tc_value(v.x >> 16, RP_FORMAT)'
stored scale loss_bf16 loss.cu softmax_xent '((coef)*a.scale)' '(coef)'
stored rounded-e loss_f16 loss.cu softmax_xent_smoothed 'l = l + e;' 'l = l + rp_rounded(e);'
product front differ gemm16.cuh 'x->from = by_k ? from' 'x->from = by_k ? from - (k0 == 0 ? 0 : 8)'
product slices differ gemm16.cuh 'fa[slice] + i * TC_FRAGMENT, fb[slice]' 'fa[1 - slice] + i * TC_FRAGMENT, fb[1 - slice]'
product tree differ gemm16.cu 'if (g->in_tree) {
                gemm16_count' 'if (g->in_tree && g->segments < 3) {
                gemm16_count'
product stage 'nothing orders them' gemm16.cuh '__syncthreads(); /* stage n is complete, and the one before has been read */' ';' PTX_RACES=1
product copies differ gemm16.cuh 'rp_copy_wait(GEMM16_STAGES - 2)' 'rp_copy_wait(GEMM16_STAGES - 1)'
fault lane "$element" rows lanes.cuh '__shfl_xor_sync(RP_ALL_LANES, give, 8)' '__shfl_xor_sync(RP_ALL_LANES, give, 4)' "$flags" layernorm_forward
fault size 'the host gives' whole kernels.h 'const float *a, *b;
    size_t n;' 'const float *a, *b;
    int n;' "$flags" add
fault vector 'not aligned' whole whole.cu 'RP_EACH4(&a, a.n, a.wide, add4)' 'RP_EACH4(&a, a.n, 1, add4)' "$flags" add
fault turn 'nothing orders them' gemm gemm_block.cuh \
    'while (rp_load_relaxed(g->semaphores + 1 + tile) != (unsigned)segment)' 'while (0)' "$flags" gemm \
    RP_CUDA_GEMM=rotate PTX_RACES=1
fault plain 'changes atomically' gemm gemm_block.cuh 'atomicAdd(g->semaphores, 0u - gridDim.x)' '*g->semaphores = 0' "$flags" gemm \
    RP_CUDA_GEMM=rotate PTX_RACES=1
fault acquire 'nothing orders them' gemm gemm_block.cuh '        unsigned pause = 32;
        while (rp_load_relaxed(g->semaphores + 1 + tile) != (unsigned)segment) {
            rp_sleep(pause);
            pause = pause < 256 ? 2 * pause : pause;
        }
        rp_fence();
' '        rp_fence();
        while (rp_load_relaxed(g->semaphores + 1 + tile) != (unsigned)segment)
            rp_sleep(32);
' "$flags" gemm RP_CUDA_GEMM=rotate PTX_RACES=1
