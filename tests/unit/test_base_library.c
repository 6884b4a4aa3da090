/* Libraries of drivers that the loader was not told about. */
#define RP_LIBRARY_FOLDERS "/nowhere", "."
#include "base/library.h"
#include "tests/unit/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(a_library_is_found_where_drivers_are_put)
{
    char path[512];
    CHECK(chdir(scratch_dir()) == 0);
    CHECK(rp_library_open("librp-of-a-driver.so") == NULL);
    const char *said = dlerror();
    CHECK(said && strncmp(said, "librp-of-a-driver.so", 20) == 0, "%s", said ? said : "nothing");
    void *known = dlopen("libm.so.6", RTLD_NOW), *cosine = known ? dlsym(known, "cos") : NULL;
    Dl_info info;
    CHECK(cosine && dladdr(cosine, &info) && realpath(info.dli_fname, path) &&
          symlink(path, "librp-of-a-driver.so") == 0);
    void *library = rp_library_open("librp-of-a-driver.so");
    CHECK(library && dlsym(library, "cos") == cosine, "%s", dlerror());
    CHECK(rp_library_open("libm.so.6") == known, "what the loader finds comes first");
}
