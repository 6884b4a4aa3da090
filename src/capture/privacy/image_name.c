/* Names of container images, without what only their owner may know. */
#include "capture/privacy/image_name.h"

#include "base/buf.h"
#include "base/text.h"

#include <string.h>

static const char *const public_registries[] = {"gcr.io",  "ghcr.io",        "mcr.microsoft.com", "nvcr.io",
                                                "quay.io", "public.ecr.aws", "registry.k8s.io"};

const char *rp_image_digest(const char *shown, size_t *name)
{
    static const char algorithm[] = "sha256:";
    const char *at = strchr(shown, '@'), *digest = at ? at + 1 : shown;
    int has = strncmp(digest, algorithm, strlen(algorithm)) == 0;
    *name = at ? (size_t)(at - shown) : has ? 0 : strlen(shown);
    digest += strlen(algorithm);
    return has && strlen(digest) == 64 && strspn(digest, "0123456789abcdef") == 64 ? digest : NULL;
}

/* The first part of a name is a registry if it could be that of a host. */
static int is_registry(const char *name, size_t n)
{
    return memchr(name, '.', n) || memchr(name, ':', n) || memchr(name, '@', n) ||
           (n == 9 && strncmp(name, "localhost", 9) == 0);
}

/* Without "docker://" and the like; of the file of an image the last part of its path. */
static const char *without_place(const char *text)
{
    const char *scheme = strstr(text, "://"), *slash = strrchr(text, '/');
    if (scheme && strspn(text, "abcdefghijklmnopqrstuvwxyz-") == (size_t)(scheme - text))
        text = scheme + 3;
    return text[0] == '/' || text[0] == '.' ? slash + 1 : text;
}

char *rp_image_show(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:";
    RP_FREE char *copy = rp_asprintf("%s", text);
    char *registry_end = strchr(copy, '#'); /* enroot: nvcr.io#nvidia/pytorch */
    if (registry_end)
        *registry_end = '/';
    const char *name = without_place(copy);
    size_t first, size;
    while (first = strcspn(name, "/"),
           name[first] && is_registry(name, first) && !RP_IS_IN(public_registries, name, first))
        name += first + 1;
    const char *digest = rp_image_digest(name, &size);
    if (strspn(name, allowed) < size || strchr("/:", name[0]) || (!digest && !size) ||
        (size && name[size] && strncmp(name + size, "@sha256:", 8) != 0))
        return NULL;
    return rp_asprintf("%.*s", digest ? (int)strlen(name) : (int)size, name);
}
