/* Names that end in .hangs.test get no answer for ten minutes, as from a name server that drops all
   packets. Names that end in .works.test are this machine. Load it with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

static int ends_in(const char *name, const char *end) {
    size_t length = name ? strlen(name) : 0;
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    int (*resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        dlsym(RTLD_NEXT, "getaddrinfo");
    if (ends_in(name, ".hangs.test")) {
        sleep(600);
        return EAI_AGAIN;
    }
    return resolve(ends_in(name, ".works.test") ? "127.0.0.1" : name, service, hints, found);
}
