#include "comm/rendezvous/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/rendezvous/hmac.h"

static ls_status check(const char *name, const char *text, size_t bytes)
{
    if (bytes < LSI_SECRET_LEAST || bytes > LSI_SECRET_MOST)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the secret in %s has %zu characters; it must have %d "
                        "to %d. `openssl rand -hex 32` creates a secret",
                        name, bytes, LSI_SECRET_LEAST, LSI_SECRET_MOST);
    if (memchr(text, '\0', bytes) != NULL)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "the secret in %s is not text: it contains a zero byte",
                        name);
    if (!lsi_hmac_is_there())
        return lsi_fail(
            LS_ERR_UNSUPPORTED,
            "%s is set, but this build has no HMAC (LOCKSTEP_NETTLE=OFF); "
            "ranks on several hosts need a build with Nettle",
            name);
    return LS_OK;
}

static ls_status keep(const char *name, const char *text, size_t bytes,
                      char **out)
{
    void *kept;
    LS_TRY(check(name, text, bytes));
    LS_TRY(lsi_alloc(&kept, bytes + 1, LS_MEMORY_COMM, "the secret"));
    memcpy(kept, text, bytes);
    ((char *)kept)[bytes] = '\0';
    *out = kept;
    return LS_OK;
}

static ls_status read_open(const char *path, int fd, char **out)
{
    char text[LSI_SECRET_MOST + 2];
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_SECRET_FILE: '%s' is not a regular file",
                        path);
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return lsi_fail(LS_ERR_ARGUMENT,
                        "LOCKSTEP_SECRET_FILE: other users can read or write "
                        "'%s'; run `chmod 600` on it",
                        path);
    const ssize_t got = read(fd, text, sizeof(text) - 1);
    if (got < 0)
        return lsi_fail_errno(LS_ERR_IO,
                              "LOCKSTEP_SECRET_FILE: cannot read '%s'", path);
    size_t bytes = (size_t)got;
    while (bytes > 0 && strchr("\n\r\t ", text[bytes - 1]) != NULL &&
           text[bytes - 1] != '\0')
        bytes--;
    return keep("LOCKSTEP_SECRET_FILE", text, bytes, out);
}

static ls_status read_file(const char *path, char **out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return lsi_fail_errno(errno == ENOENT ? LS_ERR_ARGUMENT : LS_ERR_IO,
                              "LOCKSTEP_SECRET_FILE: cannot read '%s'", path);
    const ls_status status = read_open(path, fd, out);
    close(fd);
    return status;
}

ls_status lsi_secret_read(char **out)
{
    const char *text = getenv("LOCKSTEP_SECRET");
    const char *path = getenv("LOCKSTEP_SECRET_FILE");
    if (text != NULL && *text != '\0')
        return keep("LOCKSTEP_SECRET", text, strlen(text), out);
    if (path != NULL && *path != '\0')
        return read_file(path, out);
    *out = NULL;
    return LS_OK;
}
