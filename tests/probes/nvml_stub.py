"""A libnvidia-ml.so.1 compiled on the spot, whose trouble the variable STUB_NVML picks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } memory_t;
static int is(const char *what) { const char *v = getenv("STUB_NVML"); return v && !strcmp(v, what); }

int nvmlInitWithFlags(unsigned flags) {
    const char *mode = getenv("STUB_NVML");
    const char *pidfile = getenv("STUB_PIDS");
    if (is("hang")) {
        signal(SIGTERM, SIG_IGN);
        pid_t helper = fork();  /* nvidia-modprobe is started like this */
        if (helper == 0) { sleep(60); _exit(0); }
        if (pidfile) { FILE *f = fopen(pidfile, "w"); fprintf(f, "%d %d", getpid(), helper); fclose(f); }
        sleep(60);
    }
    if (is("abort")) abort();
    if (is("segfault")) *(volatile int *)0 = 1;
    if (is("exit")) exit(0);
    if (is("noisy")) { puts("NVRM: something"); fflush(stdout); }
    return mode ? atoi(mode) : 0;
}
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "some error"; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "580.95.05"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = is("none") ? 0 : 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
    if (i == 1 && is("lost")) return 15;
    if (i == 1 && is("hang-late")) sleep(60);
    *h = (void *)(size_t)(i + 1);
    return 0;
}
int nvmlDeviceGetName(void *h, char *s, unsigned n) { snprintf(s, n, "NVIDIA H200"); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
    size_t i = (size_t)h;
    snprintf(s, n, i > 100 ? "MIG-%zu" : "GPU-0000000%zu", i);
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 9; *b = 0; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory_t *m) {
    if (is("unified")) return 3;
    m->total = 150754820096ULL;
    return 0;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) {
    *now = *later = is("mig") && h == (void *)1;
    return is("mig") ? 0 : 3;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **m) {
    if (i >= 3) return 6;
    *m = (void *)(size_t)(101 + i);
    return 0;
}
int nvmlDeviceGetGpuInstanceId(void *m, unsigned *id) { *id = (size_t)m == 103 ? 2 : 1; return 0; }
"""


def build(folder: Path) -> Path:
    """Compile the stub into `folder`; skip where there is no compiler, fail where it breaks."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    source = folder / "stub.c"
    source.write_text(SOURCE)
    target = folder / "libnvidia-ml.so.1"
    name = f"-Wl,-soname,{target.name}"
    subprocess.run([gcc, "-shared", "-fPIC", "-w", name, str(source), "-o", str(target)], check=True)
    return target
