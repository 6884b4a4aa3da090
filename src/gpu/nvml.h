/* The inside of the nvml probe: one row per value, one caller per kind of question.
 *
 * What:    a row names the source of a value (functions of libnvidia-ml, newest first), the number or text of the
 *          answer, and its form. nvml_table.c has the rows and callers, nvml.c asks and writes, nvml_links.c has what
 *          concerns two devices.
 * Flow:    row -> dlsym -> answer -> value. Absent: a function the library lacks, one that the driver calls DEPRECATED
 *          or of which it refuses every version (detail names it), NOT_SUPPORTED, and what the driver calls "not
 *          available" (all ones, no text); denied: NO_PERMISSION; error: every other code, with the driver's own words.
 * Owner:   answers are on the stack of the caller; rows and words are constant.
 * Extend:  a row in nvml_table.c; a function with parameters that no caller there has gets a caller of its own.
 */
#pragma once

#define NVML_NO_UNVERSIONED_FUNC_DEFS /* nvmlInit and nvmlInit_v2 are different symbols of the library */
#include "gpu/gpu.h"
#include <nvml.h>

#define RP_NVML_NONE (~0ull) /* no number came back */
#define RP_NVML_SET (RP_MAX_CPUS / (8 * sizeof(unsigned long)))

struct rp_nvml_answer {
    unsigned long long n[4];
    char text[3][1024]; /* well above the lengths NVML documents: newer drivers have longer texts */
    unsigned long set[RP_NVML_SET]; /* one bit per processor or NUMA node */
};

/* The subject of a query; peer and link only where it needs them. */
struct rp_nvml_subject {
    nvmlDevice_t dev, peer;
    unsigned link;
};

struct rp_nvml_row;
struct rp_nvml_way;
typedef void rp_nvml_function(void); /* what dlsym gave; the caller knows its parameters */
typedef nvmlReturn_t rp_nvml_caller(rp_nvml_function *f, const struct rp_nvml_way *w, const struct rp_nvml_subject *s,
                                    const struct rp_nvml_row *row, struct rp_nvml_answer *a);

/* A struct of numbers of one width, which a function fills. */
struct rp_nvml_struct {
    unsigned size, version; /* version 0: it has none */
    int of_system;          /* the function takes no device */
    int width;              /* bytes of a number */
    unsigned at[4];         /* offsets of those that become n[0], n[1], ...; 0 after the first: no more */
};

/* One way to ask. A list of them ends with {0}; the next is tried where the library lacks this one or refuses the
 * version of its struct. */
struct rp_nvml_way {
    const char *symbol;
    rp_nvml_caller *call;
    const struct rp_nvml_struct *layout; /* for numbers_of_struct */
};

enum rp_nvml_form {
    RP_NVML_TEXT,   /* text[pick] */
    RP_NVML_HIDDEN, /* the same, for its owner only */
    RP_NVML_NUMBER, /* n[pick] times scale */
    RP_NVML_MILLI,  /* n[pick] / 1000 */
    RP_NVML_WORD,   /* words[n[pick]] */
    RP_NVML_WORDS,  /* the words of the bits that are set in n[pick] */
    RP_NVML_RANGES  /* set as "0-11,24-35" */
};

struct rp_nvml_row {
    const char *field;
    const struct rp_nvml_way *ways;
    enum rp_nvml_form form;
    const char *unit;
    int pick, arg[2];         /* arg: constants that the caller passes on */
    unsigned scale;           /* 0 is 1 */
    const char *const *words; /* by number, ends with NULL; "": not available */
};

/* Lists end with {0}. Neighbours with the same ways and arguments are answered by one call. */
extern const struct rp_nvml_row rp_nvml_system_rows[], rp_nvml_device_rows[], rp_nvml_mig_rows[], rp_nvml_link_rows[];
extern const struct rp_nvml_row rp_nvml_count_row, rp_nvml_mig_count_row, rp_nvml_p2p_row, rp_nvml_p2p_nvlink_row,
    rp_nvml_ancestor_row;

/* Telemetry during a run: one row a key of its records. */
extern const struct rp_nvml_row rp_nvml_sample_rows[];

/* ---- nvml.c ---- */

struct rp_nvml {
    struct rp_gpu_library so;
    const char *(*error_string)(nvmlReturn_t);
};

/* Load the library; 0, or -1 with lib->so.state and its words. */
int rp_nvml_load(struct rp_nvml *lib);
/* Begin to use it. *source: the function that did. */
nvmlReturn_t rp_nvml_init(const struct rp_nvml *lib, const char **source);
/* What dlsym gives for it; NULL: the library has none of that name. */
rp_nvml_function *rp_nvml_symbol(const struct rp_nvml *lib, const char *symbol);
/* The device of an index, or at an address on the PCI bus. */
nvmlReturn_t rp_nvml_device_of(const struct rp_nvml *lib, unsigned index, nvmlDevice_t *dev, const char **source);
nvmlReturn_t rp_nvml_device_at(const struct rp_nvml *lib, const char *pci_address, nvmlDevice_t *dev,
                               const char **source);

/* *source: the function that answered, or the newest one. */
nvmlReturn_t rp_nvml_ask(const struct rp_nvml *lib, const struct rp_nvml_subject *s, const struct rp_nvml_row *row,
                         struct rp_nvml_answer *a, const char **source);
/* The value of a row that was answered with rc. */
void rp_nvml_put(const struct rp_nvml *lib, json_t *obj, const struct rp_nvml_row *row, nvmlReturn_t rc,
                 const struct rp_nvml_answer *a, const char *source);
void rp_nvml_put_failure(const struct rp_nvml *lib, json_t *obj, const char *field, nvmlReturn_t rc,
                         const char *source);
void rp_nvml_put_rows(const struct rp_nvml *lib, json_t *obj, const struct rp_nvml_subject *s,
                      const struct rp_nvml_row *rows);

/* ---- nvml_links.c ---- */

struct rp_nvml_device {
    nvmlDevice_t dev;
    json_t *values;       /* borrowed */
    nvmlReturn_t rc;      /* of getting the handle: the rest counts only with NVML_SUCCESS */
    /* NVML_SUCCESS: every link's state is known; NOT_SUPPORTED: there are none; else what failed */
    nvmlReturn_t links;
};

/* values.nvlinks (one group per link) and values.nvlinks_active */
void rp_nvml_put_links(const struct rp_nvml *lib, struct rp_nvml_device *d);
/* values.topology and values.p2p of every device: a word per other device. After the links of all of them. */
void rp_nvml_put_pairs(const struct rp_nvml *lib, const struct rp_nvml_device *d, unsigned n);
