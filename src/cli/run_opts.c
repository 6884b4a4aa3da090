#include "cli/run_opts.h"

#include "base/buf.h"
#include "recipe/choices.h"


#define AT(field) offsetof(struct rp_run_opts, field)

/* Placeholder of a flag by the type of its key; the only text keys with a flag are paths. */
#define ARG_I "N"
#define ARG_F "X"
#define ARG_S "FILE"
#define ARG_B "true|false"
#define ARG_C "WORD"
#define ARG_L "WORD,..."

/* Rows with an empty name (keys without a flag) are skipped by the parser and the help. */
const struct rp_opt rp_run_opt_table[] = {
    {.name = "set", .letter = 's', .type = RP_OPT_LIST, .offset = AT(set), .arg = "KEY=VALUE",
     .help = "set any recipe key; see 'repro recipes keys'"},
    {.name = "scan", .type = RP_OPT_LIST, .offset = AT(scan), .arg = "KEY=V1,V2,...",
     .help = "one run for each value of a key, and one table"},
    RP_OPTION_INT(runs, "runs", 0, 1, 100, "repeat the run, or each run of --scan"),
#define KEY(name_, field, type_, models, def, lo_, hi_, choices_, flag, help_) \
    RP_OPTION_TEXT(field, flag, 0, sizeof(choices_) > 1 ? choices_ : ARG_##type_, help_),
#include "recipe/keys.def"
#undef KEY
    RP_RUN_CHALLENGE,
    RP_RUN_ROWS,
    RP_OPTION_FLAG(profile, "profile", 0, "print the time of a step by operation, and stop"),
    RP_OPTION_TEXT(
        hosts, "hosts", 0, "NAME[:N],...",
        "train on these hosts, this one among them; ssh copies and starts the program there, with N ranks each"),
    RP_JOINING_ROWS(joining),
    RP_OPTION_TEXT(ssh, "ssh", 0, "COMMAND",
                   "with --hosts: command to use instead of ssh, such as \"ssh -p 2222\"; default $REPRO_SSH"),
    RP_OPTION_FLAG(keep_program, "keep-program", 0,
                   "with --hosts: leave the program in the cache of the other hosts; later jobs need no copy"),
    RP_OPTION_FLAG(other_programs, "allow-different-programs", 0,
                   "accept processes of other builds of the same commit; all must have it"),
    {0},
};

char **rp_run_settings(const struct rp_run_opts *o, int *n)
{
    static const struct {
        const char *flag;
        size_t offset;
    } keys[] = {
#define KEY(name, field, type, models, def, lo, hi, choices, flag, help) {flag, AT(field)},
#include "recipe/keys.def"
#undef KEY
    };
    char **out = rp_alloc((sizeof keys / sizeof *keys + (size_t)o->set.n + 1) * sizeof *out);
    *n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = *(const char *const *)((const char *)o + keys[i].offset);
        if (value)
            out[(*n)++] = rp_asprintf("--%s=%s", keys[i].flag, value);
    }
    for (int i = 0; i < o->set.n; i++)
        out[(*n)++] = rp_strdup(o->set.item[i]);
    return out;
}
