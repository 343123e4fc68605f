// What the files of the native key store share.
#pragma once
#include <node_api.h>

#include <vector>

#include "lmdb.h"

#include "../../util/native/addon.h"
#include "key_run.h"

// One open environment. All calls come from the thread that opened it.
struct Store {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;  // the open write transaction, if any
  MDB_dbi dbi = 0;
};

napi_value throw_lmdb(napi_env env, int rc);
napi_value throw_usage(napi_env env, const char* what);
bool bytes_of(napi_env env, napi_value value, MDB_val* into);
Store* store_of(napi_env env, napi_value value);
Store* writing(napi_env env, napi_callback_info info, size_t wanted, napi_value* arguments);

napi_value places_array(napi_env env, const std::vector<Place>& places);  // segment, row, segment, row, …

napi_value upsert_keys(napi_env env, napi_callback_info info);  // upsert.cpp
napi_value swap_keys(napi_env env, napi_callback_info info);    // swap.cpp
napi_value lookup_keys(napi_env env, napi_callback_info info);  // lookup.cpp
napi_value count_range(napi_env env, napi_callback_info info);  // lookup.cpp
napi_value segment_key_run(napi_env env, napi_callback_info info);  // segment_keys.cpp
