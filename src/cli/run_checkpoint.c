#include "cli/run_checkpoint.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/run_output.h"
#include "recipe/keys.h"
#include "run/facts.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Below the working directory, with links resolved; the file need not exist. */
static int is_below_here(const char *path)
{
    RP_FREE char *dir = rp_folder_of(path);
    if (*path == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 || strstr(path, "/../"))
        return 0;
    RP_FREE char *here = realpath(".", NULL), *there = realpath(dir, NULL);
    if (!there)
        return 1; /* no such directory: rp_run_can_create() reports it */
    size_t n = here ? strlen(here) : 0;
    return here && (strcmp(here, "/") == 0 || (strncmp(here, there, n) == 0 && (there[n] == '/' || !there[n])));
}

/* Without '/' at the end. free() it. */
static char *trimmed(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return rp_asprintf("%.*s", (int)n, path);
}

/* A file of parameters replaces an existing one only with --force, and never a directory, device or link. */
static int check_file(const char *path, const char *option, int force, struct rp_err *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISREG(st.st_mode))
        return rp_fail(err, RP_USAGE, "%s: '%s' exists and is not a regular file; give another name with --save",
                       option, path);
    return force ? 0
                 : rp_fail(err, RP_USAGE, "%s: '%s' exists; give another name with --save, or --force", option, path);
}

/* An existing directory, or one that will be made. */
static int check_directory(const char *dir, const char *option, int force, struct rp_err *err)
{
    static const char *const files[] = {RP_CHECKPOINT_WEIGHTS, RP_CHECKPOINT_CONFIG, RP_CHECKPOINT_OPTIMIZER};
    struct stat st;
    if (lstat(dir, &st) < 0)
        return rp_run_can_create(dir, err);
    if (!S_ISDIR(st.st_mode))
        return rp_fail(err, RP_USAGE, "%s: '%s' exists and is not a directory; give another name with --save", option,
                       dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        RP_FREE char *path = rp_asprintf("%s/%s", dir, files[i]);
        if (check_file(path, option, force, err) < 0)
            return -1;
    }
    RP_FREE char *path = rp_asprintf("%s/%s", dir, RP_CHECKPOINT_WEIGHTS);
    return rp_run_can_create(path, err);
}

/* run.save of a recipe, which may be untrusted, must be below the working directory. */
static int check_save(const char *save, int foreign, int force, struct rp_err *err)
{
    const char *option = foreign ? "run.save" : "--save";
    RP_FREE char *path = trimmed(save);
    if (foreign && !is_below_here(path))
        return rp_fail(err, RP_USAGE,
                       "run.save: a recipe can only name a file below the working directory, not '%s'; to write there, "
                       "give --save",
                       save);
    if (rp_checkpoint_is_directory(save)) {
        if (check_directory(path, option, force, err) == 0)
            return 0;
        return err->code == RP_IO ? rp_wrap(err, "the parameters (--save)") : -1;
    }
    if (check_file(path, option, force, err) < 0)
        return -1;
    return rp_run_can_create(path, err) < 0 ? rp_wrap(err, "the parameters (--save)") : 0;
}

/* "a, b, c" */
static void note_names(struct rp_progress *progress, const char *before, char *const *name, int64_t n)
{
    RP_BUF text = {0};
    for (int64_t i = 0; i < n; i++)
        rp_buf_printf(&text, "%s%s", i ? ", " : "", name[i]);
    if (n)
        rp_progress_note(progress, "%s: %s", before, rp_buf_text(&text));
}

static void note_checkpoint(struct rp_progress *progress, const json_t *found)
{
    struct rp_init_facts is;
    rp_object_read(&is, &rp_type_init_facts, found);
    char scale[64] = "";
    if (is.loss_scale)
        RP_FORMAT(scale, "; the loss scale goes on with %.17g", (double)is.loss_scale->scale);
    if (is.optimizer_state)
        rp_progress_note(progress, "--init: weights and optimizer state after %lld step%s%s", (long long)is.steps,
                         rp_s(is.steps), scale);
    else
        rp_progress_note(progress, "--init: weights without optimizer state, which starts at 0");
    if (is.types_n > 1 || !is.types_n || strcmp(is.types[0], "F32") != 0)
        note_names(progress, "--init: types of its tensors, all widened exactly to fp32", is.types, is.types_n);
    if (is.class) {
        RP_FREE char *before = rp_asprintf("--init: a file of %s; initialised from seed.init instead", is.class);
        note_names(progress, before, is.initialised, is.initialised_n);
    }
    note_names(progress, "config.json: ignored, they do not affect the arithmetic", is.config_ignored,
               is.config_ignored_n);
    note_names(progress, "config.json: unknown settings, not compared", is.config_unknown, is.config_unknown_n);
    rp_object_fini(&is, &rp_type_init_facts);
}

int rp_run_check_checkpoints(const struct rp_recipe *r, int force, struct rp_progress *progress, json_t **found,
                             struct rp_err *err)
{
    const char *init = r->run_init, *save = r->run_save;
    if (init && *init && rp_checkpoint_check(init, r, found, err) < 0) {
        /* another model is the same failure as config.json of a directory and as shapes of a file */
        if (err->code == RP_USAGE)
            err->code = RP_MALFORMED;
        return rp_wrap(err, "--init");
    }
    if (*found)
        note_checkpoint(progress, *found);
    if (!save || !*save)
        return 0;
    if (r->run_save_precision != RP_PRECISION_fp32 && !rp_checkpoint_is_directory(save))
        return rp_fail(err, RP_USAGE,
                       "run.save_precision %s is for a directory, as --save %s/; a file has the optimizer state too, "
                       "and stays fp32",
                       rp_choice_name(RP_PRECISIONS, r->run_save_precision), save);
    return check_save(save, r->origin[RP_KEY_run_save] != RP_FROM_COMMAND_LINE, force, err);
}

int rp_run_check_room(const struct rp_recipe *r, const struct rp_plan *plan, struct rp_err *err)
{
    const double mib = 1.0 / (1u << 20);
    struct statvfs fs;
    struct stat st;
    const char *save = r->run_save;
    if (!save || !*save)
        return 0;
    RP_FREE char *path = trimmed(save);
    RP_FREE char *dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? rp_strdup(path) : rp_folder_of(path);
    if (statvfs(dir, &fs) < 0 || fs.f_blocks == 0) /* unknown */
        return 0;
    uint64_t need = plan->parameters * sizeof(float) +
                    (r->run_save_precision == RP_PRECISION_fp32 ? plan->bytes[RP_CLASS_OPTIMIZER] : 0);
    if ((double)fs.f_bavail * (double)fs.f_frsize >= (double)need)
        return 0;
    return rp_fail(
        err, RP_IO,
        "--save: '%s' will take %.1f MiB, and %.1f MiB are free there; free some space or name another place", save,
        (double)need * mib, (double)fs.f_bavail * (double)fs.f_frsize * mib);
}
