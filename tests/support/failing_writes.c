/* Lets writes to chosen files fail, also in a process that runs: see failing_writes.py.
   Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same as the format in failing_writes.py. */
struct plan {
    volatile int is_active;
    int error;            /* errno, 0 for a short write, -1 for wrong bytes */
    volatile int skipped; /* how many matching calls still pass */
    volatile int failing; /* how many calls fail after them */
    volatile int failed;  /* how many have failed */
    char calls[64];       /* names between spaces: " write pwrite " */
    char pattern[256];    /* of fnmatch */
};

static struct plan *plan;

__attribute__((constructor)) static void open_plan(void) {
    const char *path = getenv("FAILING_WRITES_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = MAP_FAILED;
    if (file >= 0) {
        mapped = mmap(0, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    if (mapped != MAP_FAILED) plan = mapped;
}

static int is_chosen(const char *call, const char *path) {
    char name[32];
    snprintf(name, sizeof name, " %s ", call);
    if (!strstr(plan->calls, name) || fnmatch(plan->pattern, path, 0) != 0) return 0;
    if (__sync_sub_and_fetch(&plan->skipped, 1) >= 0) return 0;
    if (__sync_sub_and_fetch(&plan->failing, 1) < 0) return 0;
    __sync_add_and_fetch(&plan->failed, 1);
    return 1;
}

static int is_chosen_file(const char *call, int file) {
    if (!plan || !plan->is_active) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_chosen(call, path);
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL \
    do { \
        errno = plan->error; \
        return -1; \
    } while (0)

/* A short write stores half of the bytes, a wrong one stores others and reports success. */
#define FAIL_OR_CHANGE(bytes, size) \
    do { \
        if (plan->error > 0) FAIL; \
        if (plan->error == 0) { \
            size = size > 1 ? size / 2 : size; \
        } else { \
            char *changed = alloca(size > 65536 ? (size = 65536) : size); \
            for (size_t i = 0; i < size; i++) changed[i] = ~((const char *)bytes)[i]; \
            bytes = changed; \
        } \
    } while (0)

ssize_t write(int file, const void *bytes, size_t size) {
    NEXT(write);
    if (is_chosen_file("write", file)) FAIL_OR_CHANGE(bytes, size);
    return next(file, bytes, size);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    NEXT(pwrite);
    if (is_chosen_file("pwrite", file)) FAIL_OR_CHANGE(bytes, size);
    return next(file, bytes, size, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    NEXT(pwrite64);
    if (is_chosen_file("pwrite", file)) FAIL_OR_CHANGE(bytes, size);
    return next(file, bytes, size, at);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(writev);
    if (is_chosen_file("write", file)) FAIL;
    return next(file, parts, count);
}

int fsync(int file) {
    NEXT(fsync);
    if (is_chosen_file("fsync", file)) FAIL;
    return next(file);
}

int fdatasync(int file) {
    NEXT(fdatasync);
    if (is_chosen_file("fsync", file)) FAIL;
    return next(file);
}

int ftruncate(int file, off_t size) {
    NEXT(ftruncate);
    if (is_chosen_file("ftruncate", file)) FAIL;
    return next(file, size);
}

int ftruncate64(int file, off64_t size) {
    NEXT(ftruncate64);
    if (is_chosen_file("ftruncate", file)) FAIL;
    return next(file, size);
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    if (plan && plan->is_active && is_chosen("rename", to)) FAIL;
    return next(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    NEXT(renameat2);
    if (plan && plan->is_active && is_chosen("rename", to)) FAIL;
    return next(from_folder, from, to_folder, to, flags);
}
