#include "fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/profile.h"

/* More than any input needs, less than what libFuzzer calls too much. */
enum { BUDGET = 64 << 20 };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    setenv("LOCKSTEP_LOG", "error", 0); /* debug shows why inputs are refused */
    setenv("OMP_NUM_THREADS", "1", 1);
    ls_memory_set_budget(BUDGET);
    return 0;
}

_Noreturn void fuzz_broken(const char *promise, const char *file, int line)
{
    fprintf(stderr, "%s:%d: broken: %s (last error: %s)\n", file, line, promise,
            ls_last_error());
    abort();
}

bool fuzz_ok(ls_status status)
{
    fuzz_demand(status <= 0 &&
                strcmp(ls_status_name(status), "LS_UNKNOWN") != 0);
    fuzz_demand(status == LS_OK || ls_last_error()[0] != '\0');
    return status == LS_OK;
}

/* ---- the input ----------------------------------------------------------- */

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

uint32_t fuzz_word(fuzz_input *in)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word |= (uint32_t)fuzz_byte(in) << 8 * i;
    return word;
}

static char *take(fuzz_input *in, size_t bytes)
{
    char *text = malloc(bytes + 1);
    fuzz_demand(text != NULL);
    memcpy(text, in->data, bytes);
    text[bytes] = '\0';
    in->data += bytes;
    in->size -= bytes;
    return text;
}

char *fuzz_line(fuzz_input *in)
{
    const uint8_t *end = in->size > 0 ? memchr(in->data, '\n', in->size) : NULL;
    if (end == NULL)
        return fuzz_rest(in);
    char *line = take(in, (size_t)(end - in->data));
    fuzz_byte(in);
    return line;
}

char *fuzz_rest(fuzz_input *in)
{
    return in->size > 0 ? take(in, in->size) : calloc(1, 1);
}

/* ---- files --------------------------------------------------------------- */

static char path[64];

static int open_memory(void)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        fuzz_demand(fd >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    fuzz_demand(ftruncate(fd, 0) == 0);
    return fd;
}

const char *fuzz_file(const void *data, size_t size)
{
    const int fd = open_memory();
    fuzz_demand(pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

const char *fuzz_safetensors(const void *header, size_t size, size_t zeros)
{
    const int fd = open_memory();
    const uint64_t bytes = size;
    fuzz_demand(pwrite(fd, &bytes, sizeof(bytes), 0) == sizeof(bytes));
    fuzz_demand(pwrite(fd, header, size, sizeof(bytes)) == (ssize_t)size);
    fuzz_demand(ftruncate(fd, (off_t)(sizeof(bytes) + size + zeros)) == 0);
    return path;
}

static char folder[256];

static int remove_one(const char *name, const struct stat *info, int kind,
                      struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(name);
}

static void remove_folder(void)
{
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* run.py brings one, and removes it also if this process breaks. */
const char *fuzz_folder(void)
{
    const char *given = getenv("FUZZ_FOLDER");
    if (folder[0] != '\0')
        return folder;
    snprintf(folder, sizeof(folder), "%s",
             given != NULL ? given : "/tmp/lockstep-fuzz-XXXXXX");
    if (given == NULL) {
        fuzz_demand(mkdtemp(folder) != NULL);
        atexit(remove_folder);
    }
    return folder;
}

void fuzz_write(const char *name, const void *data, size_t size)
{
    char in_folder[512];
    snprintf(in_folder, sizeof(in_folder), "%s/%s", fuzz_folder(), name);
    const int fd = open(in_folder, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    fuzz_demand(fd >= 0);
    fuzz_demand(write(fd, data, size) == (ssize_t)size);
    close(fd);
}
