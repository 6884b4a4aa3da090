/* The build record: which sources this program was made from, and with what.
 *
 * What:    one constant, filled by the build (generated build.c), printed by `repro version` and put into every capture.
 * Flow:    git, the compiler and the dependency list at build time -> static texts.
 * Owner:   static, read-only.
 * Extend:  a field here, its value in the Makefile's rule for build.c, its line in cli/cmd_version.c.
 *
 * The notices of everything linked in are the embedded files "LICENSE" and "LICENSES.txt" (base/embed.h).
 */
#ifndef RP_BASE_BUILD_H
#define RP_BASE_BUILD_H

struct rp_build {
    const char *version;  /* "0.1.0" */
    const char *commit;   /* 40 hex digits, "" where the sources were no git checkout */
    int dirty;            /* 1: the checkout differed from that commit */
    const char *compiler; /* "gcc (Debian 12.2.0-14) 12.2.0" */
    const char *sources;  /* a line per source file, "PACKAGE VERSION SHA256 FILE"; then a line per package whose pinned version had
                             left the archive, "fell-forward: PACKAGE OLD -> NEW" */
};
extern const struct rp_build rp_build;

#endif
