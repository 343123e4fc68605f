// The key store over liblmdb's C interface: one environment, one database, plain synchronous
// transactions.
//
//   W-4  A transaction is durable when lmdbCommit returns: no NOSYNC, no WRITEMAP, no overlapping
//        sync.
//
// Every argument is checked here; the TypeScript side (index-store-native.ts) checks none.
#include <cstdlib>
#include <cstring>

#include "key_store.h"

// The message names every error. Callers compare only this code.
static const char* code_of(int rc) { return rc == MDB_PANIC ? "MDB_PANIC" : "LMDB"; }

// Commits and frees `txn` in every case. This liblmdb reports a transaction without changes as
// MDB_EMPTY_TXN.
static int commit_txn(MDB_txn* txn) {
  const int rc = mdb_txn_commit(txn);
  return rc == MDB_EMPTY_TXN ? 0 : rc;
}

napi_value throw_lmdb(napi_env env, int rc) {
  napi_throw_error(env, code_of(rc), mdb_strerror(rc));
  return nullptr;
}

napi_value throw_usage(napi_env env, const char* what) {
  napi_throw_type_error(env, nullptr, what);
  return nullptr;
}

bool bytes_of(napi_env env, napi_value value, MDB_val* into) {
  Array<uint8_t> bytes;
  if (!read_array(env, value, napi_uint8_array, bytes)) return false;
  *into = MDB_val{bytes.size, bytes.data};
  return true;
}

static Store* store_of(napi_env env, napi_value value) {
  napi_valuetype type;
  void* data = nullptr;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_external) return nullptr;
  if (napi_get_value_external(env, value, &data) != napi_ok) return nullptr;
  return static_cast<Store*>(data);
}

// A function of JavaScript with `count` arguments. The first one is a store with a transaction
// open.
template <size_t count, napi_value (*body)(napi_env, Store*, napi_value*)>
static napi_value in_transaction(napi_env env, napi_callback_info info) {
  size_t given = count;
  napi_value arguments[count];
  Store* store = nullptr;
  if (napi_get_cb_info(env, info, &given, arguments, nullptr, nullptr) == napi_ok && given == count)
    store = store_of(env, arguments[0]);
  if (store == nullptr || store->txn == nullptr) return throw_usage(env, "the key store has no open transaction");
  return body(env, store, arguments);
}

static void close_store(Store* store) {
  if (store->txn != nullptr) mdb_txn_abort(store->txn);
  store->txn = nullptr;
  if (store->env != nullptr) mdb_env_close(store->env);
  store->env = nullptr;
}

static void finalize(napi_env env, void* data, void* hint) {
  Store* store = static_cast<Store*>(data);
  close_store(store);
  delete store;
}

// lmdbOpen(folder: string, mapBytes: number): external. The folder must exist. Creates missing
// files.
static napi_value open(napi_env env, napi_callback_info info) {
  size_t count = 2, length = 0;
  napi_value arguments[2], result;
  char path[4096];
  double map_bytes = 0;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 2 || napi_get_value_string_utf8(env, arguments[0], path, sizeof path, &length) != napi_ok ||
      length >= sizeof path - 1 || napi_get_value_double(env, arguments[1], &map_bytes) != napi_ok)
    return throw_usage(env, "lmdbOpen takes a folder and the map's bytes");
  Store* store = new Store();
  MDB_txn* txn = nullptr;
  int rc = mdb_env_create(&store->env);
  if (rc == 0) rc = mdb_env_set_mapsize(store->env, static_cast<size_t>(map_bytes));
  if (rc == 0) rc = mdb_env_open(store->env, path, MDB_NOTLS, 0600);
  if (rc == 0) rc = mdb_txn_begin(store->env, nullptr, 0, &txn);
  if (rc == 0) {
    rc = mdb_dbi_open(txn, nullptr, 0, &store->dbi);
    if (rc == 0)
      rc = commit_txn(txn);
    else
      mdb_txn_abort(txn);
  }
  if (rc != 0) {
    close_store(store);
    delete store;
    return throw_lmdb(env, rc);
  }
  if (napi_create_external(env, store, finalize, nullptr, &result) != napi_ok) {
    close_store(store);
    delete store;
    return throw_usage(env, "the key store cannot be handed over");
  }
  return result;
}

// lmdbClose(store). Aborts an open transaction. May be called twice.
static napi_value close(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value arguments[1];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  Store* store = count == 1 ? store_of(env, arguments[0]) : nullptr;
  if (store == nullptr) return throw_usage(env, "lmdbClose takes a store");
  close_store(store);
  return nullptr;
}

// lmdbBegin(store): the one write transaction; reads use it too.
static napi_value begin(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value arguments[1];
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  Store* store = count == 1 ? store_of(env, arguments[0]) : nullptr;
  if (store == nullptr || store->env == nullptr || store->txn != nullptr)
    return throw_usage(env, "the key store is closed or in a transaction");
  const int rc = mdb_txn_begin(store->env, nullptr, 0, &store->txn);
  if (rc != 0) {
    store->txn = nullptr;
    return throw_lmdb(env, rc);
  }
  return nullptr;
}

// LMDB refuses every transaction once the write of its meta page has failed.
static bool is_broken(MDB_env* env) {
  MDB_txn* probe = nullptr;
  const int rc = mdb_txn_begin(env, nullptr, MDB_RDONLY, &probe);
  if (rc == 0) mdb_txn_abort(probe);
  return rc == MDB_PANIC;
}

// lmdbCommit(store): durable when it returns. An error other than MDB_PANIC means that nothing was
// written. MDB_PANIC means that the outcome is unknown.
static napi_value commit(napi_env env, Store* store, napi_value*) {
  MDB_txn* txn = store->txn;
  store->txn = nullptr;
  const int rc = commit_txn(txn);
  if (rc != 0) napi_throw_error(env, code_of(is_broken(store->env) ? MDB_PANIC : rc), mdb_strerror(rc));
  return nullptr;
}

static napi_value abort_txn(napi_env env, Store* store, napi_value*) {
  mdb_txn_abort(store->txn);
  store->txn = nullptr;
  return nullptr;
}

static napi_value copy_bytes(napi_env env, const MDB_val& value) {
  return new_array(env, napi_uint8_array, static_cast<const uint8_t*>(value.mv_data), value.mv_size);
}

// lmdbGet(store, key): Uint8Array | undefined, a copy.
static napi_value get(napi_env env, Store* store, napi_value* arguments) {
  MDB_val key, value;
  if (!bytes_of(env, arguments[1], &key)) return throw_usage(env, "a key is a Uint8Array");
  const int rc = mdb_get(store->txn, store->dbi, &key, &value);
  if (rc == MDB_NOTFOUND) return nullptr;
  return rc == 0 ? copy_bytes(env, value) : throw_lmdb(env, rc);
}

static napi_value put(napi_env env, Store* store, napi_value* arguments) {
  MDB_val key, value;
  if (!bytes_of(env, arguments[1], &key) || !bytes_of(env, arguments[2], &value))
    return throw_usage(env, "a key and a value are Uint8Arrays");
  const int rc = mdb_put(store->txn, store->dbi, &key, &value, 0);
  return rc == 0 ? nullptr : throw_lmdb(env, rc);
}

// lmdbRemove(store, key): boolean: true where the key was there.
static napi_value remove_key(napi_env env, Store* store, napi_value* arguments) {
  napi_value result;
  MDB_val key;
  if (!bytes_of(env, arguments[1], &key)) return throw_usage(env, "a key is a Uint8Array");
  const int rc = mdb_del(store->txn, store->dbi, &key, nullptr);
  if (rc != 0 && rc != MDB_NOTFOUND) return throw_lmdb(env, rc);
  napi_get_boolean(env, rc == 0, &result);
  return result;
}

// The order of LMDB's keys: by bytes, then the shorter first.
static bool below(const MDB_val& a, const MDB_val& b) {
  const int order = memcmp(a.mv_data, b.mv_data, a.mv_size < b.mv_size ? a.mv_size : b.mv_size);
  return order != 0 ? order < 0 : a.mv_size < b.mv_size;
}

// Reads from and to (exclusive) from arguments 1 and 2, then calls `visit(cursor, key, value)` for
// each entry of the range, ascending, until one call returns other than 0. A visit may remove its
// entry: MDB_NEXT then gives the one that followed it. Returns false after a thrown error.
template <class Visit>
static bool visit_range(napi_env env, Store* store, napi_value* arguments, uint64_t limit, Visit visit) {
  MDB_val key, to, value;
  if (!bytes_of(env, arguments[1], &key) || !bytes_of(env, arguments[2], &to)) {
    throw_usage(env, "a range is two keys");
    return false;
  }
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc == 0) {
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (uint64_t visited = 0; rc == 0 && visited < limit && below(key, to); visited++) {
      rc = visit(cursor, key, value);
      if (rc == 0) rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
  }
  if (rc == 0 || rc == MDB_NOTFOUND) return true;
  throw_lmdb(env, rc);
  return false;
}

static bool read_limit(napi_env env, napi_value value, uint32_t* limit) {
  if (napi_get_value_uint32(env, value, limit) == napi_ok) return true;
  throw_usage(env, "a range's limit is a number");
  return false;
}

// lmdbRange(store, from, to, limit): [key, value, key, value, …], copies, ascending.
static napi_value range(napi_env env, Store* store, napi_value* arguments) {
  napi_value result;
  uint32_t limit, found = 0;
  if (!read_limit(env, arguments[3], &limit)) return nullptr;
  napi_create_array(env, &result);
  const bool ok = visit_range(env, store, arguments, limit, [&](MDB_cursor*, const MDB_val& key, const MDB_val& value) {
    napi_set_element(env, result, found++, copy_bytes(env, key));
    napi_set_element(env, result, found++, copy_bytes(env, value));
    return 0;
  });
  return ok ? result : nullptr;
}

// lmdbRemoveRange(store, from, to, limit): the number of removed entries, at most `limit`.
static napi_value remove_range(napi_env env, Store* store, napi_value* arguments) {
  napi_value result;
  uint32_t limit, removed = 0;
  if (!read_limit(env, arguments[3], &limit)) return nullptr;
  const bool ok = visit_range(env, store, arguments, limit, [&](MDB_cursor* cursor, const MDB_val&, const MDB_val&) {
    const int rc = mdb_cursor_del(cursor, 0);
    if (rc == 0) removed++;
    return rc;
  });
  if (!ok) return nullptr;
  napi_create_uint32(env, removed, &result);
  return result;
}

// lmdbCountRange(store, from, to): the number of entries with from ≤ key < to.
static napi_value count_range(napi_env env, Store* store, napi_value* arguments) {
  napi_value result;
  double count = 0;
  const bool ok = visit_range(env, store, arguments, UINT64_MAX, [&](MDB_cursor*, const MDB_val&, const MDB_val&) {
    count++;
    return 0;
  });
  if (!ok) return nullptr;
  napi_create_double(env, count, &result);
  return result;
}

void init_keys(napi_env env, napi_value exports) {
  add_function(env, exports, "lmdbOpen", open);
  add_function(env, exports, "lmdbClose", close);
  add_function(env, exports, "lmdbBegin", begin);
  add_function(env, exports, "lmdbCommit", in_transaction<1, commit>);
  add_function(env, exports, "lmdbAbort", in_transaction<1, abort_txn>);
  add_function(env, exports, "lmdbGet", in_transaction<2, get>);
  add_function(env, exports, "lmdbPut", in_transaction<3, put>);
  add_function(env, exports, "lmdbRemove", in_transaction<2, remove_key>);
  add_function(env, exports, "lmdbRange", in_transaction<4, range>);
  add_function(env, exports, "lmdbRemoveRange", in_transaction<4, remove_range>);
  add_function(env, exports, "lmdbUpsertKeys", in_transaction<4, upsert_keys>);
  add_function(env, exports, "lmdbMoveKeys", in_transaction<5, move_keys>);
  add_function(env, exports, "lmdbLookupKeys", in_transaction<3, lookup_keys>);
  add_function(env, exports, "lmdbCountRange", in_transaction<3, count_range>);
  add_function(env, exports, "segmentKeyRun", segment_key_run);
}
