// The one native module. Each layer adds its functions to `exports`. It uses only N-API, so one
// binary serves every Node version. No C++ exception leaves it: calls throw through
// napi_throw_error.
#include <node_api.h>

#include "addon.h"

static napi_value init(napi_env env, napi_value exports) {
  init_batch(env, exports);
  init_crc32(env, exports);
  init_direct(env, exports);
  init_keys(env, exports);
  init_live_rows(env, exports);
  init_query(env, exports);
  init_segment(env, exports);
  init_util(env, exports);
  return exports;
}

NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
