// The one native module: each stage adds its functions to `exports`. N-API only, so one binary serves every
// Node version; no exception leaves it, no call throws but through napi_throw_error.
#include <node_api.h>

#include "addon.h"

static napi_value init(napi_env env, napi_value exports) {
  init_batch(env, exports);
  init_crc32(env, exports);
  init_direct(env, exports);
  init_keys(env, exports);
  init_query(env, exports);
  init_segment(env, exports);
  init_util(env, exports);
  return exports;
}

NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
