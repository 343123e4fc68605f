// Lowers the priority of threads, so that flushes and queries use the processor time that acks
// leave. Reads a thread's processor time. Limits the arenas of glibc's malloc. Ends a process with
// its parent.
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "addon.h"

// On Linux PRIO_PROCESS with 0 means the calling thread. It adds, because Weir itself may run at a
// nice value.
static void add_nice(int nice) { setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice); }

// niceThread(nice: number). Adds to the calling thread's nice value.
static napi_value nice_thread(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument;
  int32_t nice = 0;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  if (count < 1 || napi_get_value_int32(env, argument, &nice) != napi_ok)
    napi_throw_type_error(env, nullptr, "niceThread takes a number");
  else add_nice(nice);
  return nullptr;
}

// A barrier for all threads of libuv's pool. Each waits until all have come, so no thread comes
// twice.
struct Gathering {
  std::mutex mutex;
  std::condition_variable all_came;
  int32_t wanted = 0;
  int32_t nice = 0;
  std::chrono::steady_clock::time_point until;
  int32_t came = 0;  // written by the pool's threads
  int32_t done = 0;  // written by the calling thread
  napi_deferred deferred = nullptr;
};

struct GatherWork {
  std::shared_ptr<Gathering> gathering;
  napi_async_work work = nullptr;
};

// Runs in the pool.
static void gather_execute(napi_env, void* data) {
  Gathering& here = *static_cast<GatherWork*>(data)->gathering;
  std::unique_lock<std::mutex> lock(here.mutex);
  add_nice(here.nice);
  if (++here.came >= here.wanted) here.all_came.notify_all();
  here.all_came.wait_until(lock, here.until, [&] { return here.came >= here.wanted; });
}

// Runs on the calling thread.
static void gather_complete(napi_env env, napi_status, void* data) {
  std::unique_ptr<GatherWork> work(static_cast<GatherWork*>(data));
  Gathering& here = *work->gathering;
  napi_delete_async_work(env, work->work);
  if (++here.done < here.wanted) return;
  napi_value nothing;
  napi_get_undefined(env, &nothing);
  napi_resolve_deferred(env, here.deferred, nothing);
}

// The size of the pool, as libuv reads it for the first work item of a process.
static int32_t pool_threads() {
  const char* text = getenv("UV_THREADPOOL_SIZE");
  return text == nullptr ? 4 : std::clamp(atoi(text), 1, 1024);
}

// nicePool(nice: number, msMax: number): Promise<void>. Adds to the nice value of each thread of
// libuv's pool; threads that they start inherit it. They wait for each other at most `msMax`.
static napi_value nice_pool(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2], name, promise;
  int32_t ms_max = 0;
  auto gathering = std::make_shared<Gathering>();
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 2 || napi_get_value_int32(env, arguments[0], &gathering->nice) != napi_ok ||
      napi_get_value_int32(env, arguments[1], &ms_max) != napi_ok) {
    napi_throw_type_error(env, nullptr, "nicePool takes a nice value and milliseconds");
    return nullptr;
  }
  gathering->wanted = pool_threads();
  gathering->until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms_max);
  napi_create_promise(env, &gathering->deferred, &promise);
  napi_create_string_utf8(env, "weir:nicePool", NAPI_AUTO_LENGTH, &name);
  for (int32_t i = 0; i < gathering->wanted; i++) {
    auto* work = new GatherWork{gathering};
    napi_create_async_work(env, nullptr, name, gather_execute, gather_complete, work, &work->work);
    napi_queue_async_work(env, work->work);
  }
  return promise;
}

// threadCpuMs(): number. Processor time of the calling thread since its start, in ms.
static napi_value thread_cpu_ms(napi_env env, napi_callback_info info) {
  struct timespec used = {0, 0};
  napi_value result;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  napi_create_double(env, 1e3 * (double)used.tv_sec + 1e-6 * (double)used.tv_nsec, &result);
  return result;
}

// dieWithParent(). The kernel sends SIGKILL to this process when the thread that started it ends.
// The caller checks that the parent lives still.
static napi_value die_with_parent(napi_env, napi_callback_info) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return nullptr;
}

// By default glibc makes up to eight arenas per core, and memory that one thread frees in its arena
// serves no other thread. Under mixed work on two cores, 8 minutes left 599 MB with two arenas and
// 677 MB without a limit. With one arena per core threads do not wait for each other; beyond four,
// memory costs more than waiting. The main thread loads the module before it starts others; later
// loads change nothing.
static void limit_arenas() {
#if defined(__GLIBC__)
  static std::once_flag once;
  std::call_once(once, [] { mallopt(M_ARENA_MAX, std::clamp((int)std::thread::hardware_concurrency(), 2, 4)); });
#endif
}

void init_util(napi_env env, napi_value exports) {
  limit_arenas();
  add_function(env, exports, "niceThread", nice_thread);
  add_function(env, exports, "nicePool", nice_pool);
  add_function(env, exports, "threadCpuMs", thread_cpu_ms);
  add_function(env, exports, "dieWithParent", die_with_parent);
}
