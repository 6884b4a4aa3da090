/* `repro timestamp`: requests to a time stamping authority, and its answers as members of a bundle. */
#include "base/text.h"
#include "cli/amend.h"
#include "cli/opts.h"
#include "sign/timestamp.h"
#include "verify/verify.h"

#include <string.h>

#define STATEMENT "statement.dsse.json"
#define REQUEST_END ".tsq"

struct timestamp_opts {
    const char *output, *tsa_ca;
    int force;
};
#define AT(field) offsetof(struct timestamp_opts, field)

/* ---- timestamp request ---- */

static const struct rp_opt request_opts[] = {
    RP_OPT_OUTPUT(output, "request to write; default: BUNDLE" REQUEST_END),
    RP_OPT_FORCE(force),
    {0},
};

static int cmd_timestamp_request(struct rp_cli *cli, struct rp_err *err)
{
    const struct timestamp_opts *o = cli->opts;
    RP_FREE char *named = rp_asprintf("%s" REQUEST_END, cli->argv[0]);
    const char *to = o->output ? o->output : named;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    RP_BUF request = {0};
    struct rp_verify_opts vo = {.keep = &kept};
    if (rp_cli_check_output(to, o->force, err) < 0)
        return -1;
    if (rp_verify(&v, cli->argv[0], &vo, err) < 0)
        return rp_wrap(err, "nothing was requested: the bundle does not verify");
    if (rp_timestamp_request(&request, &rp_bundle_find(&kept.bundle, STATEMENT)->bytes, err) < 0 ||
        rp_cli_write_output(cli, to, o->force, &request, err) < 0)
        return -1;
    rp_cli_return(cli,
                  json_pack("{s:o, s:s, s:s}", "request", rp_cli_path(to), "statement_sha256", v.statement,
                            "content_type", "application/timestamp-query"),
                  "{/request p}: about the SHA-256 {/statement_sha256 t} of " STATEMENT "\n"
                  "send it to an authority, then 'repro timestamp attach' its answer:\n"
                  "  curl -H 'Content-Type: {/content_type t}' --data-binary @{/request p} https://tsa.example "
                  ">answer.tsr\n");
    return 0;
}

/* ---- timestamp attach ---- */

static const struct rp_opt attach_opts[] = {
    RP_OPT_OUTPUT(output, "bundle to write; default: BUNDLE is replaced"),
    RP_OPT_FORCE(force),
    RP_OPT_TSA_CA(tsa_ca),
    {0},
};

/* What goes into the bundle. */
struct answer {
    struct rp_buf bytes;
    struct rp_timestamp t;
    int checked; /* with --tsa-ca */
};

/* Nothing that `verify` would refuse is added. */
static int read_answer(struct answer *a, const char *path, const struct rp_buf *statement, const struct rp_tsa_ca *ca,
                       struct rp_err *err)
{
    if (rp_read_file(&a->bytes, path, RP_TIMESTAMP_SIZE_MAX, err) < 0)
        return -1;
    if (rp_timestamp_read(&a->t, rp_buf_text(&a->bytes), a->bytes.size, statement, err) < 0)
        return rp_wrap(err, "'%s'", path);
    a->checked = ca != NULL;
    return ca && rp_timestamp_check(&a->t, rp_buf_text(&a->bytes), a->bytes.size, ca, err) < 0
               ? rp_wrap(err, "'%s'", path)
               : 0;
}

static int add_answer(struct rp_bundle *b, const struct rp_buf *answer, int *number, struct rp_err *err)
{
    char name[32];
    int n = 0;
    for (const struct rp_member *m; (m = rp_bundle_find(b, RP_FORMAT(name, RP_TIMESTAMP_FOLDER "%d.tsr", n))); n++)
        if (rp_buf_is(answer, rp_buf_text(&m->bytes), m->bytes.size))
            return rp_fail(err, RP_USAGE, "the bundle has this time stamp, %s", name);
    if (n >= RP_TIMESTAMP_MAX)
        return rp_fail(err, RP_USAGE, "the bundle has %d time stamps, the maximum", RP_TIMESTAMP_MAX);
    *number = n;
    return rp_bundle_add(b, name, answer->data, answer->size, err);
}

static void print_answer(struct rp_cli *cli, const struct answer *a, int number, const char *path)
{
    json_t *j = rp_timestamp_json(&a->t);
    json_object_update_new(j, json_pack("{s:o, s:i, s:b}", "bundle", rp_cli_path(path), "number", number, "checked",
                                        a->checked));
    rp_cli_return(cli, j, RP_TIMESTAMP_TEXT "[!/checked: (not checked: --tsa-ca FILE)]\n");
    rp_cli_print_path(cli, path);
}

static int attach_answer(struct rp_cli *cli, const char *path, mode_t mode, struct answer *a, struct rp_err *err)
{
    const struct timestamp_opts *o = cli->opts;
    const char *to = o->output ? o->output : path;
    RP_TSA_CA *ca = NULL;
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    RP_BUNDLE whole = {0};
    struct rp_verify_opts vo = {.keep = &kept};
    int number = 0;
    if (o->tsa_ca && !(ca = rp_tsa_ca_load(o->tsa_ca, err)))
        return rp_wrap(err, "--tsa-ca");
    if (rp_verify(&v, path, &vo, err) < 0)
        return rp_wrap(err, "nothing was added: the bundle does not verify");
    if (read_answer(a, cli->argv[1], &rp_bundle_find(&kept.bundle, STATEMENT)->bytes, ca, err) < 0 ||
        rp_amend_read(&whole, path, &kept.bundle, err) < 0 || add_answer(&whole, &a->bytes, &number, err) < 0 ||
        rp_amend_write(&whole, to, o->output && !o->force, mode, err) < 0)
        return -1;
    print_answer(cli, a, number, to);
    return 0;
}

static int cmd_timestamp_attach(struct rp_cli *cli, struct rp_err *err)
{
    const struct timestamp_opts *o = cli->opts;
    struct answer a = {0};
    struct stat st = {0};
    RP_FREE char *path = NULL;
    RP_FD lock = rp_amend_open(&path, &st, cli->argv[0], o->output, o->force, err);
    int failed = lock < 0 || attach_answer(cli, path, st.st_mode & 0777, &a, err) < 0;
    rp_buf_fini(&a.bytes);
    return failed ? -1 : 0;
}

/* ---- the commands ---- */

const struct rp_command rp_cmd_timestamp = {
    .name = "timestamp",
    .operands = "",
    .summary = "prove with a time stamping authority when a bundle existed",
    .details = "A time stamp shows that a bundle existed by a moment of an authority's clock. With a challenge or "
               "public value, which shows that the run is not older ('repro help challenge'), it bounds the time that "
               "the run can have taken.\n"
               "\n"
               "1. repro timestamp request BUNDLE writes what to send, 2. an authority answers it (RFC 3161), 3. repro "
               "timestamp attach BUNDLE ANSWER adds the answer to the bundle, 4. repro verify BUNDLE --tsa-ca FILE "
               "checks it with the authority's root certificate.\n"
               "\n"
               "Examples:\n"
               "  repro timestamp request mine.repro.tar.zst -o request.tsq\n"
               "  repro timestamp attach mine.repro.tar.zst answer.tsr\n"
               "  repro verify mine.repro.tar.zst --tsa-ca root.pem\n",
};

const struct rp_command rp_cmd_timestamp_request = {
    .name = "timestamp request",
    .operands = "BUNDLE",
    .summary = "write a request for an authority (RFC 3161)",
    .details = "A time stamp is an authority's signature over a digest and the time. The digest is the SHA-256 of "
               "statement.dsse.json, which names every member, so a time stamp proves that the bundle as it is existed "
               "by then. It does not prove when the run began: for that, derive the run from a challenge or a public "
               "value. Both together bound how long the run can have taken, without the signer's clock.\n"
               "\n"
               "The authority learns the digest and nothing else. Any authority will do that follows RFC 3161 and "
               "signs with RSA (PKCS #1) or ECDSA and SHA-2; some are free. The request asks for the authority's "
               "certificates, because the answer is checked offline, and has a random nonce. The bundle is verified "
               "first.\n"
               "\n"
               "Examples:\n"
               "  repro timestamp request a.repro.tar.zst -o a.tsq\n"
               "  curl -H 'Content-Type: application/timestamp-query' --data-binary @a.tsq \\\n"
               "    https://tsa.example >a.tsr\n"
               "  repro timestamp attach a.repro.tar.zst a.tsr\n"
               "  repro verify a.repro.tar.zst --tsa-ca authority-root.pem\n",
    .opts = request_opts,
    .opts_size = sizeof(struct timestamp_opts),
    .run = cmd_timestamp_request,
};

const struct rp_command rp_cmd_timestamp_attach = {
    .name = "timestamp attach",
    .operands = "BUNDLE RESPONSE",
    .summary = "add an authority's answer to a bundle",
    .details = "The answer becomes the member timestamps/N.tsr, byte for byte; no other member changes, and the file "
               "is replaced atomically. An answer is refused if the authority rejected the request, if it is about "
               "another bundle, if it is damaged, or if its certificate is not one for time stamps; the bundle is then "
               "as it was. At most 8, by different authorities if you like: the earliest that verifies counts.\n"
               "\n"
               "The verifier decides whose time counts: --tsa-ca names PEM certificates that the chain of the "
               "authority's certificate must end in. Intermediate certificates come from the answer. The chain is "
               "checked for the time of the token, so that it still verifies after the certificate has expired. "
               "Without --tsa-ca, also in 'repro verify', the time is shown as the authority's word, not checked: "
               "anybody can make a certificate with any name.\n"
               "\n"
               "What remains: an authority that lies, or whose key was stolen, can stamp any time (revocation is not "
               "looked up); a bundle does not record the number of its time stamps, so a removed one is not detected.\n"
               "\n"
               "Examples:\n"
               "  repro timestamp attach a.repro.tar.zst a.tsr --tsa-ca authority-root.pem\n"
               "  openssl ts -reply -in a.tsr -text\n",
    .opts = attach_opts,
    .opts_size = sizeof(struct timestamp_opts),
    .run = cmd_timestamp_attach,
};
