/* Unit tests: a file of TEST(name) { ... } is a whole program that prints TAP.
 *
 * What:    CHECK(condition) or CHECK(condition, "format", ...) notes a failure and goes on; CHECK_STR compares texts; SKIP(reason) leaves
 *          the test. Tests run in the order of the file; arguments of the program select tests by a part of their name.
 * Flow:    TEST() puts a pointer into the section rp_tests; main() below walks it. Exit status 1 if a check failed.
 * Owner:   include from one file per program (one with a main() of its own defines TAP_NO_MAIN and looks at tap_failures); the working directory is the top of the repository.
 * Extend:  write tests/unit/test_<module>.c (or tests/ops/...): the Makefile finds it by its name.
 */
#ifndef RP_TESTS_TAP_H
#define RP_TESTS_TAP_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tap_test {
    const char *name;
    void (*run)(void);
};

static atomic_int tap_failures; /* of the test that runs; checks may come from several threads */
__attribute__((unused)) static const char *tap_skipped;

#define TEST(name)                                                                                                                         \
    static void test_##name(void);                                                                                                        \
    static const struct tap_test tap_##name = {#name, test_##name};                                                                       \
    static const struct tap_test *const tap_pointer_##name __attribute__((used, section("rp_tests"))) = &tap_##name;                      \
    static void test_##name(void)

#define CHECK(cond, ...) tap_check(!!(cond), __FILE__, __LINE__, #cond, " " __VA_ARGS__)
#define CHECK_STR(got, expected) tap_check_str(__FILE__, __LINE__, #got, got, expected)
#define SKIP(reason)                                                                                                                       \
    do {                                                                                                                                   \
        tap_skipped = (reason);                                                                                                            \
        return;                                                                                                                            \
    } while (0)

__attribute__((unused, format(printf, 5, 6))) static int tap_check(int good, const char *file, int line, const char *text,
                                                                   const char *format, ...)
{
    if (good)
        return 1;
    va_list ap;
    char why[512];
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    printf("# %s:%d: CHECK(%s)%s%s\n", file, line, text, why[1] ? ":" : "", why[1] ? why : "");
    atomic_fetch_add(&tap_failures, 1);
    return 0;
}

__attribute__((unused)) static int tap_check_str(const char *file, int line, const char *text, const char *got, const char *expected)
{
    if (got == expected || (got && expected && strcmp(got, expected) == 0))
        return 1;
    printf("# %s:%d: %s\n#   is       '%s'\n#   expected '%s'\n", file, line, text, got ? got : "(null)", expected ? expected : "(null)");
    atomic_fetch_add(&tap_failures, 1);
    return 0;
}

#ifndef TAP_NO_MAIN
extern const struct tap_test *const __start_rp_tests[];
extern const struct tap_test *const __stop_rp_tests[];

static int tap_selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return 1;
    return argc < 2;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct tap_test *const *t = __start_rp_tests; t < __stop_rp_tests; t++)
        n += tap_selected((*t)->name, argc, argv);
    printf("1..%d\n", n);
    n = 0;
    for (const struct tap_test *const *t = __start_rp_tests; t < __stop_rp_tests; t++) {
        if (!tap_selected((*t)->name, argc, argv))
            continue;
        atomic_store(&tap_failures, 0);
        tap_skipped = NULL;
        (*t)->run();
        int bad = atomic_load(&tap_failures) != 0;
        failed += bad;
        printf("%sok %d - %s%s%s\n", bad ? "not " : "", ++n, (*t)->name, tap_skipped && !bad ? " # SKIP " : "",
               tap_skipped && !bad ? tap_skipped : "");
    }
    return failed != 0;
}
#endif

#endif
