/* Rows of option tables.
 *
 * What:    a macro for each type of row, and the options that several commands share: the same name, letter and help
 *          everywhere.
 * Flow:    RP_OPTION_FLAG(force, ...) -> struct rp_opt. AT(field) is the offset in the command's own struct, which its
 *          file defines.
 * Owner:   texts are literals.
 * Extend:  an option that a second command gets moves here.
 */
#pragma once

#include "cli/cli.h"

#define RP_OPTION_FLAG(field, name_, letter_, help_) \
    {.name = name_, .letter = letter_, .type = RP_OPT_FLAG, .offset = AT(field), .help = help_}
#define RP_OPTION_TEXT(field, name_, letter_, arg_, help_) \
    {.name = name_, .letter = letter_, .type = RP_OPT_TEXT, .offset = AT(field), .arg = arg_, .help = help_}
#define RP_OPTION_LIST(field, name_, arg_, help_) \
    {.name = name_, .type = RP_OPT_LIST, .offset = AT(field), .arg = arg_, .help = help_}
#define RP_OPTION_CHOICE(field, name_, letter_, choices_, help_) \
    {.name = name_, .letter = letter_, .type = RP_OPT_CHOICE, .offset = AT(field), .choices = choices_, .help = help_}
#define RP_OPTION_INT(field, name_, letter_, lo_, hi_, help_) \
    {.name = name_, .letter = letter_, .type = RP_OPT_INT, .offset = AT(field), .arg = "N", .lo = lo_, .hi = hi_, \
     .help = help_}

#define RP_OPT_OUTPUT(field, help_) RP_OPTION_TEXT(field, "output", 'o', "FILE", help_)
#define RP_OPT_OUTPUT_OR_STDOUT(field, help_)                                                                          \
    {.name = "output", .letter = 'o', .type = RP_OPT_TEXT, .offset = AT(field), .arg = "FILE", .standard = 1,          \
     .help = help_}
#define RP_OPT_FORCE(field) RP_OPTION_FLAG(field, "force", 'f', "overwrite existing files")
#define RP_OPT_TRUST(field)                                                                                            \
    RP_OPTION_TEXT(field, "trust", 't', "KEY|FILE",                                                                    \
                   "required signer: fingerprint, public key file or name of 'repro key trust'")
#define RP_OPT_ANY_KEY(field)                                                                                          \
    RP_OPTION_FLAG(field, "any-key", 0, "accept any signer; without it an unknown key ends with status 8")
#define RP_OPT_KEY(field)                                                                                              \
    RP_OPTION_TEXT(field, "key", 'k', "FILE",                                                                          \
                   "private key, PEM or OpenSSH; default $REPRO_KEY or ~/.config/repro/key.pem")
#define RP_OPT_PASSPHRASE_FD(field)                                                                                    \
    RP_OPTION_INT(field, "passphrase-fd", 0, 3, 1023, "read the key's passphrase from this file descriptor")
#define RP_OPT_STORE(field)                                                                                            \
    RP_OPTION_TEXT(field, "store", 0, "DIR",                                                                           \
                   "directory of unpacked data archives; default $REPRO_STORE or the cache directory")
#define RP_OPT_IDENTIFY(field) RP_OPTION_FLAG(field, "identify", 0, "record names, serial numbers and UUIDs unhashed")
#define RP_OPT_NO_LEDGER(field)                                                                                        \
    RP_OPTION_FLAG(field, "no-ledger", 0, "add no ledger entry; a bundle made without one records that")
#define RP_OPT_LEDGER(field)                                                                                           \
    RP_OPTION_TEXT(field, "ledger", 0, "FILE", "look the run up in its signer's ledger, from 'repro ledger export'")
#define RP_OPT_TSA_CA(field)                                                                                           \
    RP_OPTION_TEXT(field, "tsa-ca", 0, "FILE", "PEM certificates of the authorities whose time stamps you trust")
#define RP_OPT_ORIGINAL(field)                                                                                         \
    RP_OPTION_TEXT(field, "original", 0, "BUNDLE", "the run that this one replicates: compare both again")
#define RP_OPT_REPLICATION(field, help_) RP_OPTION_TEXT(field, "replication", 0, "FILE", help_)
#define RP_OPT_ROOT(field) RP_OPTION_TEXT(field, "root", 0, "DIR", "read a recorded machine instead of /")

/* Options with which processes become one job (supervise/joining.h); o: the command's field, a struct
 * rp_joining_opts. */
#define RP_JOINING_ROWS(o)                                                                                             \
    RP_OPTION_TEXT(o.launcher, "launcher", 0, "ID", "launcher of this process; default: detected"),  \
    RP_OPTION_TEXT(o.rank_from, "rank-from", 0, "VAR", "variable with the rank, if no launcher is detected"),  \
    RP_OPTION_TEXT(o.size_from, "size-from", 0, "VAR", "variable with the number of processes"),       \
    RP_OPTION_INT(o.nodes, "nodes", 0, 1, RP_JOIN_MAX,                                                                 \
                  "number of nodes, if no launcher sets it"),                                \
    RP_OPTION_TEXT(o.node_rank, "node-rank", 0, "N", "rank of this node, from 0, if no launcher sets it"),             \
    RP_OPTION_INT(o.ranks_per_node, "ranks-per-node", 0, 1, 4096,                                                      \
                  "ranks that each node starts; default 1"),                                          \
    RP_OPTION_TEXT(o.join, "join", 0, "HOST[:PORT]", "address of rank 0; default: from the launcher"),           \
    RP_OPTION_INT(o.port, "port", 0, 1, 65535, "port of rank 0; default: from the job's id"),                        \
    RP_OPTION_TEXT(o.job_key, "job-key", 0, "FILE", "key of the job, - for standard input; default $REPRO_JOB_KEY"),   \
    RP_OPTION_INT(o.key_fd, "job-key-fd", 0, 3, 1023, "read the key of the job from this file descriptor"),            \
    RP_OPTION_INT(o.timeout, "join-timeout", 0, 1, 86400, "seconds to wait for all processes; default 120")
