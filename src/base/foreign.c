/* Git LFS pointers and web pages in the place of data. */
#include "base/foreign.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#define WEB_PAGE "is a web page: the download failed, or needs a login; fetch the file again and look at it before use"

static const struct {
    const char *begin, *text;
} kinds[] = {
    {"version https://git-lfs.github.com/spec/",
     "is a Git LFS pointer, not the file itself: 'git lfs pull' fetches that"},
    {"<!doctype html", WEB_PAGE},
    {"<html", WEB_PAGE},
    {"<head>", WEB_PAGE},
    {"<?xml", "is an XML document, as servers answer with an error: fetch the file again and look at it before use"},
};

const char *rp_foreign_kind(const void *head, size_t n)
{
    const char *p = head;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
        n -= 3;
    }
    while (n && *p && strchr(" \t\r\n", *p)) {
        p++;
        n--;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= strlen(kinds[i].begin) && strncasecmp(p, kinds[i].begin, strlen(kinds[i].begin)) == 0)
            return kinds[i].text;
    return NULL;
}

const char *rp_foreign_kind_fd(int fd)
{
    char head[RP_FOREIGN_HEAD];
    const ssize_t n = pread(fd, head, sizeof head, 0);
    return n > 0 ? rp_foreign_kind(head, (size_t)n) : NULL;
}
