/* `repro selftest`: compares operations on this machine with their definitions. */
#include "backend/documents.h"
#include "backend/selftest.h"
#include "backend/speed.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "recipe/choices.h"
#include "sign/key.h"
#include "worker/worker.h"

#include <stdio.h>
#include <string.h>

struct selftest_opts {
    int verbose, speed, tensor_core;
    const char *backend, *device;
};

#define AT(field) offsetof(struct selftest_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_FLAG(verbose, "verbose", 'v', "one line per operation as it is done"),
    RP_OPTION_CHOICE(backend, "backend", 0, RP_CHOICES(RP_BACKENDS),
                     "what to test; auto: the CPU, and a GPU where one can be used"),
    RP_OPTION_FLAG(speed, "speed", 0,
                   "measure speed instead; GEMMs of BERT-base, attention and memory-bound operations at real size"),
    RP_OPTION_FLAG(tensor_core, "tensor-core", 0,
                   "mixed precision, with the sums of each kind of tensor core; on the CPU, a minute or two"),
    RP_OPTION_TEXT(device, "device", 0, "N|UUID",
                   "the GPU: a number from 0 or a UUID (GPU-...); default the first one"),
    {0},
};

/* FIPS 180-4 examples. */
static int check_sha256(struct rp_err *err)
{
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[RP_SHA256_HEX];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        rp_sha256_hex(hex, known[i].text, strlen(known[i].text));
        if (strcmp(hex, known[i].hex) != 0)
            return rp_fail(err, RP_MISMATCH, "SHA-256 of '%s' is %s, expected %s", known[i].text, hex, known[i].hex);
    }
    return 0;
}

/* RFC 8032 section 7.1, TEST 2: message 0x72. The PEM is the 12 bytes of an Ed25519 SubjectPublicKeyInfo and the key of
 * the RFC. */
static int check_ed25519(struct rp_err *err)
{
    static const char key_hex[] =
        "302a300506032b65700321003d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
    static const char sig_hex[] = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                                  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";
    unsigned char der[44], sig[64];
    RP_BUF pem = {0};
    struct rp_err refused;
    if (rp_unhex(der, sizeof der, key_hex) < 0 || rp_unhex(sig, sizeof sig, sig_hex) < 0)
        return rp_fail(err, RP_BUG, "a test vector is malformed");
    rp_buf_puts(&pem, "-----BEGIN PUBLIC KEY-----\n");
    rp_base64(&pem, der, sizeof der);
    rp_buf_puts(&pem, "\n-----END PUBLIC KEY-----\n");
    RP_KEY *k = rp_key_load_public(pem.data, pem.size, "RFC 8032 test vector", err);
    if (!k)
        return -1;
    if (rp_key_verify(k, "\x72", 1, sig, err) < 0)
        return rp_wrap(err, "Ed25519 refuses the signature of RFC 8032");
    return rp_key_verify(k, "\x73", 1, sig, &refused) < 0
               ? 0
               : rp_fail(err, RP_MISMATCH, "Ed25519 accepts a signature of another message");
}

static void print_row_done(void *arg, const json_t *row)
{
    (void)arg;
    RP_READ(tested_operation, operation, row);
    fprintf(stderr, "%s %s: %lld cases, %lld failed\n", rp_text_or_empty(operation.isa), rp_text_or_empty(operation.op),
            (long long)operation.cases, (long long)operation.failed);
}

static void print_gpu_row_done(const json_t *row)
{
    print_row_done(NULL, row);
}

/* Two rows of one instruction set in one arithmetic. */
static int is_with(const struct rp_tested_operation *a, const struct rp_tested_operation *b)
{
    return rp_same_text(a->isa, b->isa) && rp_same_text(a->numerics, b->numerics);
}

/* Rows of one instruction set follow each other, those of the GPU last. is_stopped: the GPU failed before all
 * operations were compared. */
static json_t *tested_json(const json_t *doc, int is_stopped)
{
    json_t *list = json_array();
    RP_READ(tested_operations, all, doc);
    for (int64_t i = 0, end; i < all.operations_n; i = end) {
        const struct rp_tested_operation *begin = &all.operations[i];
        const int strict = rp_same_text(begin->numerics, rp_numerics_name(RP_NUMERICS_fp32_1));
        long long cases = begin->cases, failed = begin->failed;
        for (end = i + 1; end < all.operations_n && is_with(begin, &all.operations[end]); end++) {
            cases += all.operations[end].cases;
            failed += all.operations[end].failed;
        }
        const char *verdict = failed ? "FAILED" : is_stopped && rp_same_text(begin->isa, "cuda") ? "STOPPED" : "good";
        json_array_append_new(list, json_pack("{s:s, s:s*, s:s, s:I, s:I, s:I}", "isa", rp_text_or_empty(begin->isa),
                                              "numerics", strict ? NULL : begin->numerics, "verdict", verdict,
                                              "operations", (json_int_t)(end - i), "cases", (json_int_t)cases, "failed",
                                              (json_int_t)failed));
    }
    return list;
}

static const char text[] =
    "SHA-256\t[/sha256:good][!/sha256:FAILED]\n"
    "Ed25519\t[/ed25519:good][!/ed25519:FAILED]\n"
    "[/tested:{/isa t}[/numerics:, {/numerics t}]\t{/verdict t}: {/operations t} operations, {/cases t} cases, "
    "{/failed t} failed\n]"
    "[/cuda:cuda\tnot tested: {/cuda t}\n]"
    "[/operations:[/failed:FAILED\t{/op t}, {/isa t}: {/failed t} of {/cases t} cases; first: {/difference p}\n]]";

static int is_wanted(const struct selftest_opts *o, const char *backend)
{
    return o->backend && strcmp(o->backend, backend) == 0;
}

static int is_verbose(const struct rp_cli *cli, const struct selftest_opts *o)
{
    return o->verbose && !cli->quiet;
}

static void print_kernels(const json_t *kernels)
{
    const char *name;
    json_t *launches;
    int ran = 0;
    json_object_foreach((json_t *)kernels, name, launches)
        ran += json_integer_value(launches) > 0;
    fprintf(stderr, "kernels: %d of %zu ran\n", ran, json_object_size(kernels));
}

/* What is known of the GPU besides its rows. */
static void note_gpu(const struct rp_cli *cli, const struct selftest_opts *o, const struct rp_gpu_report *r,
                     json_t *doc)
{
    json_object_set(doc, "kernels", r->kernels); /* unless it is NULL */
    json_object_set(doc, "stopped", r->stopped);
    if (*r->note)
        json_object_set_new(doc, "note", json_string(r->note));
    if (r->kernels && is_verbose(cli, o))
        print_kernels(r->kernels);
    if (*r->note && !cli->quiet)
        fprintf(stderr, "repro: note: %s\n", r->note);
}

/* Did the worker answer that the GPU cannot be used, or is there no worker? One that hung or crashed stopped
 * somewhere, and that is a failure. */
static int is_unusable(const struct rp_gpu_report *r, const struct rp_err *err)
{
    return err->code == RP_UNAVAILABLE && !r->stopped;
}

/* Adds the rows of the GPU. 1: no usable GPU, which is an error only if it was requested. */
static int test_gpu(const struct rp_cli *cli, const struct selftest_opts *o, json_t *doc, struct rp_err *err)
{
    struct rp_gpu_report r = {.done = is_verbose(cli, o) ? print_gpu_row_done : NULL};
    int failed = rp_worker_selftest_gpu(o->device, o->tensor_core, &r, err) < 0 ? -1 : 0;
    json_array_extend(json_object_get(doc, "operations"), r.rows);
    if (is_wanted(o, "cuda") || !failed || !is_unusable(&r, err)) {
        note_gpu(cli, o, &r, doc);
    } else {
        json_object_set_new(doc, "cuda", json_string(err->msg));
        failed = 1;
    }
    rp_gpu_report_fini(&r);
    return failed;
}

#define SPEED_SECONDS 0.25 /* a row; under a tool, where times mean nothing, it has only three calls */

static int measure_cpu_speed(json_t **rows, struct rp_err *err)
{
    const struct rp_backend *cpu = &rp_backend_cpu;
    struct rp_device_opts o = {0};
    struct rp_dev *dev = rp_ops_speed_open(cpu, &o, err);
    if (!dev)
        return -1;
    rp_interrupt_catch();
    int failed = rp_ops_speed(dev, &o, SPEED_SECONDS, rp_interrupted, NULL, rows, err) < 0;
    cpu->close(dev);
    if (rp_interrupted())
        return rp_fail(err, RP_INTERRUPTED, "interrupted");
    return failed ? -1 : 0;
}

static void add_rates(json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        RP_READ(timed_operation, operation, row);
        json_object_set_new(row, "flops_per_s", json_real(operation.flops / operation.seconds));
        json_object_set_new(row, "bytes_per_s", json_real(operation.bytes / operation.seconds));
    }
}

static const char speed_text[] =
    "operation\t\tsize\rms\rTFLOP/s\rGB/s\n"
    "[/speed:{/what t}\t{/name t}\t{/shape t}\r{/seconds d4*1e3}\r[/flops_per_s:{/flops_per_s d3*1e-12}]\r"
    "{/bytes_per_s d1*1e-9}\n]";

static void print_speed_done(const json_t *row)
{
    RP_READ(timed_operation, operation, row);
    fprintf(stderr, "%s %s %s: %.4f ms\n", rp_text_or_empty(operation.what), rp_text_or_empty(operation.name),
            rp_text_or_empty(operation.shape), operation.seconds * 1e3);
}

/* One device: a usable or requested GPU, else the CPU. */
static int measure_speed(struct rp_cli *cli, const struct selftest_opts *o, struct rp_err *err)
{
    struct rp_gpu_report r = {.done = is_verbose(cli, o) ? print_speed_done : NULL};
    const char *backend = "cuda";
    const double seconds = rp_process_tool() ? 0 : SPEED_SECONDS;
    int failed = is_wanted(o, "cpu") ? -1 : rp_worker_speed_gpu(o->device, o->tensor_core, seconds, &r, err);
    if (is_wanted(o, "cpu") ||
        (failed && !o->tensor_core && !is_wanted(o, "cuda") && is_unusable(&r, err))) {
        backend = "cpu";
        rp_gpu_report_fini(&r);
        failed = measure_cpu_speed(&r.rows, err);
    }
    add_rates(r.rows);
    if (!failed || r.stopped)
        rp_cli_return(cli, json_pack("{s:s, s:O, s:O*}", "backend", backend, "speed", r.rows, "stopped", r.stopped),
                      failed && !json_array_size(r.rows) ? "" : speed_text);
    if (*r.note && !cli->quiet)
        fprintf(stderr, "repro: note: %s\n", r.note);
    rp_gpu_report_fini(&r);
    return failed ? -1 : 0;
}

static int note_result(json_t *doc, const char *what, int failed)
{
    json_object_set_new(doc, what, json_boolean(!failed));
    return failed;
}

static int cmd_selftest(struct rp_cli *cli, struct rp_err *err)
{
    const struct selftest_opts *o = cli->opts;
    if (o->tensor_core && o->speed && is_wanted(o, "cpu"))
        return rp_fail(err, RP_USAGE, "--speed --tensor-core is for GPUs: CPUs compute tensor cores in software");
    if (o->speed)
        return measure_speed(cli, o, err);
    const struct rp_case_watch progress = {.done = is_verbose(cli, o) ? print_row_done : NULL};
    struct rp_err first = {0}, e = {0};
    json_t *doc = json_pack("{s:[]}", "operations");
    RP_JSON *ops = NULL;
    if (note_result(doc, "sha256", check_sha256(&e) < 0))
        first = e;
    if (note_result(doc, "ed25519", check_ed25519(&e) < 0) && first.code == RP_OK)
        first = e;
    if (!is_wanted(o, "cuda") && rp_ops_selftest(o->tensor_core, &progress, &ops, &e) < 0 && first.code == RP_OK)
        first = e;
    if (ops)
        json_array_extend(json_object_get(doc, "operations"), ops);
    if (!is_wanted(o, "cpu") && test_gpu(cli, o, doc, &e) < 0 && first.code == RP_OK)
        first = e;
    json_object_set_new(doc, "tested", tested_json(doc, json_object_get(doc, "stopped") != NULL));
    rp_cli_return(cli, doc, text);
    if (first.code == RP_OK)
        return 0;
    *err = first;
    return -1;
}

const struct rp_command rp_cmd_selftest = {
    .name = "selftest",
    .operands = "",
    .summary = "compare every operation on this machine with its definition, bit for bit",
    .details =
        "Runs every operation on small odd sizes with every usable instruction set, and on a GPU if one can be "
        "used, and compares each bit with the scalar definition; SHA-256 and Ed25519 with published vectors. "
        "Takes a few seconds. Exit status 5 if anything differs.\n"
        "\n"
        "--tensor-core does so in mixed precision, with the sums of products of each kind of tensor core "
        "(train.tensor_core): on the CPU, which emulates them, on a GPU with its own; and products that were recorded "
        "on V100, A100, A2, Ada, L40S, H100, H200 and B200. With --speed it measures a GPU's tensor cores, in bf16, "
        "before compute capability 8.0 in fp16.\n"
        "\n"
        "A GPU that hangs, or whose driver fails, ends the test with another status (7 for a hang); the message "
        "names operation, case and shape, and so does \"stopped\" with --json. A minute without a report counts "
        "as a hang, before the first case five minutes.\n"
        "\n"
        "Profilers and checkers such as ncu and compute-sanitizer cannot be started in front of repro: it is linked "
        "statically, so they wait without end for the process that uses the GPU. RP_GPU_TOOL lets repro start them. "
        "What the tool prints goes to standard error; --speed then calls each operation only three times.\n"
        "\n"
        "Environment, also of 'repro run':\n"
        "  RP_GPU_TIMEOUT_MS=20000      a hang is 20 s without a report, before the first case 60 s\n"
        "  RP_GPU_TOOL='ncu --set full' the tool, and its options separated by spaces\n"
        "  RP_CUDA_GEMM=rotate          every GEMM kernel in turn; --json: \"kernels\" has the launches of each\n"
        "  RP_CUDA_GEMM=mma             mixed precision on an H100 or H200 without wgmma\n"
        "  RP_CUDA_ATTENTION=rotate     every attention kernel in turn\n"
        "\n"
        "Examples:\n"
        "  repro selftest\n"
        "  repro selftest --backend cuda --tensor-core\n"
        "  repro selftest --backend cuda --tensor-core --speed\n"
        "  repro selftest --speed --json\n",
    .opts = opts,
    .opts_size = sizeof(struct selftest_opts),
    .run = cmd_selftest,
};
