// The functions with which each layer's native part adds its routines to the module.
#pragma once
#include <node_api.h>

void init_batch(napi_env env, napi_value exports);      // src/parse/native
void init_crc32(napi_env env, napi_value exports);      // src/util/native
void init_direct(napi_env env, napi_value exports);     // src/util/native
void init_keys(napi_env env, napi_value exports);       // src/index/native
void init_live_rows(napi_env env, napi_value exports);  // src/query/native
void init_query(napi_env env, napi_value exports);      // src/query/native
void init_segment(napi_env env, napi_value exports);    // src/store/segment/native
void init_util(napi_env env, napi_value exports);       // src/util/native

// Adds a function to an object. Makes the load of the module throw where N-API refuses: a thread
// that is being ended refuses all, and must not take the process with it. There the throw fails as
// well.
inline void add_function(napi_env env, napi_value to, const char* name, napi_callback call) {
  napi_value function;
  if (napi_create_function(env, name, NAPI_AUTO_LENGTH, call, nullptr, &function) != napi_ok ||
      napi_set_named_property(env, to, name, function) != napi_ok)
    napi_throw_error(env, nullptr, name);
}
