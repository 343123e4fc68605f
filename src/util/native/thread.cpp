// Gives a thread a lower share of the processor: sealing and queries use what acks leave. Tells what a thread used.
#include <sys/resource.h>
#include <time.h>

#include "addon.h"

// niceThread(nice: number): boolean. Sets the calling thread's nice value; false where the system refuses.
static napi_value nice_thread(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument, result;
  int32_t nice = 0;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  if (count < 1 || napi_get_value_int32(env, argument, &nice) != napi_ok) {
    napi_throw_type_error(env, nullptr, "niceThread takes a number");
    return nullptr;
  }
  // On Linux PRIO_PROCESS with 0 means the calling thread.
  napi_get_boolean(env, setpriority(PRIO_PROCESS, 0, nice) == 0, &result);
  return result;
}

// threadCpuMs(): number. Processor time of the calling thread since it began, in ms.
static napi_value thread_cpu_ms(napi_env env, napi_callback_info info) {
  struct timespec used = {0, 0};
  napi_value result;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  napi_create_double(env, 1e3 * (double)used.tv_sec + 1e-6 * (double)used.tv_nsec, &result);
  return result;
}

void init_util(napi_env env, napi_value exports) {
  add_function(env, exports, "niceThread", nice_thread);
  add_function(env, exports, "threadCpuMs", thread_cpu_ms);
}
