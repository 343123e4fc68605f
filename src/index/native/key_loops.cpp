// The loops over a sorted key run, each inside the open transaction: upsert (a flush), move (a
// compaction commit) and lookup (checks). index-store-lmdb.ts holds the same three loops in
// TypeScript; results must be equal.
//
// A cursor keeps its leaf page, so a run of neighbouring keys needs no search from the root.
#include <algorithm>
#include <cstring>
#include <vector>

#include "key_store.h"

namespace {

constexpr uint32_t NOWHERE = 0xffffffff;

// Calls `one(key, row)` for each key of a run, behind `prefix`, until one call returns other than
// 0. Returns 0 or LMDB's error.
template <class One>
int each_key(const MDB_val& prefix, const KeyRun& run, One one) {
  uint8_t key_bytes[KEY_BYTES_MAX];
  memcpy(key_bytes, prefix.mv_data, prefix.mv_size);
  for (uint32_t i = 0; i < run.count; i++) {
    const size_t bytes = static_cast<size_t>(run.offsets[i + 1] - run.offsets[i]);
    if (prefix.mv_size + bytes > KEY_BYTES_MAX) return MDB_BAD_VALSIZE;
    memcpy(key_bytes + prefix.mv_size, run.bytes + run.offsets[i], bytes);
    const int rc = one(MDB_val{prefix.mv_size + bytes, key_bytes}, run.rows[i]);
    if (rc != 0) return rc;
  }
  return 0;
}

int read_place(const MDB_val& value, Place* place) {
  if (value.mv_size < sizeof(Place)) return MDB_CORRUPTED;
  memcpy(place, value.mv_data, sizeof(Place));
  return 0;
}

// Finds the value of a key and the place in it: NOWHERE twice where the key is not there. Returns 0
// or LMDB's error.
int find_place(MDB_cursor* cursor, MDB_val* key, MDB_val* value, Place* place) {
  *place = {NOWHERE, NOWHERE};
  const int rc = mdb_cursor_get(cursor, key, value, MDB_SET);
  if (rc == MDB_NOTFOUND) return 0;
  return rc != 0 ? rc : read_place(*value, place);
}

// Arguments 1 and 2 of every loop: the keys' prefix and the run. Throws where they are not.
bool prefix_and_run(napi_env env, napi_value* arguments, const char* usage, MDB_val* prefix, KeyRun* run) {
  void* data;
  size_t length;
  if (!bytes_of(env, arguments[1], prefix) || prefix->mv_size > 16 ||
      napi_get_arraybuffer_info(env, arguments[2], &data, &length) != napi_ok) {
    throw_usage(env, usage);
    return false;
  }
  if (read_key_run(static_cast<const uint8_t*>(data), length, run)) return true;
  throw_usage(env, "not a key run");
  return false;
}

// Calls `loop(cursor)` with a cursor of the store's database. Returns 0 or LMDB's error.
template <class Loop>
int with_cursor(Store* store, Loop loop) {
  MDB_cursor* cursor;
  int rc = mdb_cursor_open(store->txn, store->dbi, &cursor);
  if (rc != 0) return rc;
  rc = loop(cursor);
  mdb_cursor_close(cursor);
  return rc;
}

// Returns the places as one array: segment, row, segment, row, …
napi_value places_array(napi_env env, const std::vector<Place>& places) {
  static_assert(sizeof(Place) == 2 * sizeof(uint32_t), "two numbers");
  return new_array(env, napi_uint32_array, reinterpret_cast<const uint32_t*>(places.data()), 2 * places.size());
}

// Appends the place in the value of a key's entry.
int collect(const MDB_val& value, std::vector<Place>* superseded) {
  Place old;
  const int rc = read_place(value, &old);
  if (rc == 0) superseded->push_back(old);
  return rc;
}

int erase(MDB_cursor* cursor, MDB_val key, std::vector<Place>* superseded) {
  MDB_val value;
  int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET);
  if (rc == MDB_NOTFOUND) return 0;
  if (rc == 0) rc = collect(value, superseded);
  return rc != 0 ? rc : mdb_cursor_del(cursor, 0);
}

// Points a key at its row. `version` is null in a run without versions.
int set_place(MDB_cursor* cursor, MDB_val key, uint32_t segment, int32_t word, const uint8_t* version,
              std::vector<Place>* superseded) {
  const bool is_after_delete = word < 0;
  const int32_t row = is_after_delete ? after_delete(word) : word;
  RankedPlace entry{{segment, static_cast<uint32_t>(row)}, {}};
  if (version != nullptr) memcpy(entry.version, version, VERSION_BYTES);
  const size_t bytes = version == nullptr ? sizeof(Place) : sizeof entry;
  MDB_val value{bytes, &entry};
  int rc = mdb_cursor_put(cursor, &key, &value, MDB_NOOVERWRITE);
  if (rc != MDB_KEYEXIST) return rc;
  // LMDB has set `value` to the old one.
  if (version != nullptr) {
    if (value.mv_size != sizeof entry) return MDB_CORRUPTED;
    const uint8_t* old_version = static_cast<const uint8_t*>(value.mv_data) + sizeof(Place);
    if (!is_after_delete && memcmp(version, old_version, VERSION_BYTES) < 0) {
      superseded->push_back(entry.place);
      return 0;
    }
  }
  rc = collect(value, superseded);
  if (rc != 0) return rc;
  value = MDB_val{bytes, &entry};
  return mdb_cursor_put(cursor, &key, &value, MDB_CURRENT);
}

// Puts or deletes each key and collects the places that keys pointed to before. A new key costs one
// search (put with NOOVERWRITE). A known key costs the same search and an overwrite in place.
//
// In a run with versions a row whose version is below that of the key's row does not get the key:
// its own place is collected. A row that follows a delete of its key always gets it.
//
// Returns 0 or LMDB's error.
int upsert_all(MDB_cursor* cursor, const MDB_val& prefix, const KeyRun& run, uint32_t segment,
               std::vector<Place>* superseded) {
  const uint8_t* version = run.versions;
  return each_key(prefix, run, [&](const MDB_val& key, int32_t word) {
    const uint8_t* const own = version;
    if (own != nullptr) version += VERSION_BYTES;
    return word == -1 ? erase(cursor, key, superseded) : set_place(cursor, key, segment, word, own, superseded);
  });
}

// Moves each key that points into a replaced segment to its new row, or deletes it. A key that
// points elsewhere stays: its row was updated or deleted meanwhile, and `superseded` gets the copy
// of that row. `found` is parallel to `replaced`: how many keys pointed into it, so that the caller
// can compare it with the segment's rows. Returns 0 or LMDB's error.
int move_all(MDB_cursor* cursor, const MDB_val& prefix, const KeyRun& run, uint32_t segment,
             const Array<uint32_t>& replaced, std::vector<uint32_t>* superseded, std::vector<uint32_t>* found) {
  const uint32_t *const begin = replaced.data, *const end = begin + replaced.size;
  found->assign(replaced.size, 0);
  return each_key(prefix, run, [&](MDB_val key, int32_t row) {
    MDB_val value;
    Place now;
    const int rc = find_place(cursor, &key, &value, &now);
    if (rc != 0) return rc;
    const uint32_t* const at = std::lower_bound(begin, end, now.segment);
    if (at == end || *at != now.segment) {
      if (row >= 0) superseded->push_back(static_cast<uint32_t>(row));
      return 0;
    }
    (*found)[static_cast<size_t>(at - begin)] += 1;
    if (row < 0) return mdb_cursor_del(cursor, 0);
    // A version stays as it is.
    uint8_t moved[sizeof(RankedPlace)];
    if (value.mv_size > sizeof moved) return MDB_CORRUPTED;
    memcpy(moved, value.mv_data, value.mv_size);
    const Place place{segment, static_cast<uint32_t>(row)};
    memcpy(moved, &place, sizeof place);
    value.mv_data = moved;
    return mdb_cursor_put(cursor, &key, &value, MDB_CURRENT);
  });
}

napi_value moved_keys(napi_env env, std::vector<uint32_t>* superseded, const std::vector<uint32_t>& found) {
  std::sort(superseded->begin(), superseded->end());
  napi_value result;
  napi_value superseded_rows = new_array(env, napi_uint32_array, superseded->data(), superseded->size());
  napi_value found_keys = new_array(env, napi_uint32_array, found.data(), found.size());
  if (superseded_rows == nullptr || found_keys == nullptr || napi_create_object(env, &result) != napi_ok ||
      napi_set_named_property(env, result, "superseded", superseded_rows) != napi_ok ||
      napi_set_named_property(env, result, "found", found_keys) != napi_ok)
    return nullptr;
  return result;
}

// Collects where each key of the run points. Returns 0 or LMDB's error.
int look_up(MDB_cursor* cursor, const MDB_val& prefix, const KeyRun& run, std::vector<Place>* places) {
  return each_key(prefix, run, [&](MDB_val key, int32_t) {
    MDB_val value;
    Place place;
    const int rc = find_place(cursor, &key, &value, &place);
    if (rc == 0) places->push_back(place);
    return rc;
  });
}

}  // namespace

// lmdbUpsertKeys(store, prefix, run, segment): Uint32Array of (segment, row), sorted: where keys
// pointed before, and in a run with versions the rows that did not get their key.
napi_value upsert_keys(napi_env env, Store* store, napi_value* arguments) {
  const char* usage = "lmdbUpsertKeys takes a store, a prefix, a key run and a segment";
  MDB_val prefix;
  uint32_t segment;
  KeyRun run;
  if (napi_get_value_uint32(env, arguments[3], &segment) != napi_ok) return throw_usage(env, usage);
  if (!prefix_and_run(env, arguments, usage, &prefix, &run)) return nullptr;
  std::vector<Place> superseded;
  const int rc =
      with_cursor(store, [&](MDB_cursor* cursor) { return upsert_all(cursor, prefix, run, segment, &superseded); });
  if (rc != 0) return throw_lmdb(env, rc);
  std::sort(superseded.begin(), superseded.end(), [](const Place& a, const Place& b) {
    return a.segment != b.segment ? a.segment < b.segment : a.row < b.row;
  });
  return places_array(env, superseded);
}

// lmdbMoveKeys(store, prefix, run, segment, replaced): {superseded, found}. `replaced` is a sorted
// Uint32Array of segments. `superseded` is a sorted Uint32Array of rows in `segment`. `found` is a
// Uint32Array parallel to `replaced`.
napi_value move_keys(napi_env env, Store* store, napi_value* arguments) {
  const char* usage = "lmdbMoveKeys takes a store, a prefix, a key run, a segment and sorted segments";
  MDB_val prefix;
  uint32_t segment;
  Array<uint32_t> replaced;
  KeyRun run;
  if (napi_get_value_uint32(env, arguments[3], &segment) != napi_ok ||
      !read_array(env, arguments[4], napi_uint32_array, replaced) ||
      !std::is_sorted(replaced.data, replaced.data + replaced.size))
    return throw_usage(env, usage);
  if (!prefix_and_run(env, arguments, usage, &prefix, &run)) return nullptr;
  std::vector<uint32_t> superseded, found;
  const int rc = with_cursor(store, [&](MDB_cursor* cursor) {
    return move_all(cursor, prefix, run, segment, replaced, &superseded, &found);
  });
  return rc != 0 ? throw_lmdb(env, rc) : moved_keys(env, &superseded, found);
}

// lmdbLookupKeys(store, prefix, run): Uint32Array of (segment, row) per key, NOWHERE twice where it
// is not there.
napi_value lookup_keys(napi_env env, Store* store, napi_value* arguments) {
  MDB_val prefix;
  KeyRun run;
  if (!prefix_and_run(env, arguments, "lmdbLookupKeys takes a store, a prefix and a key run", &prefix, &run))
    return nullptr;
  std::vector<Place> places;
  places.reserve(run.count);
  const int rc =
      with_cursor(store, [&](MDB_cursor* cursor) { return look_up(cursor, prefix, run, &places); });
  return rc != 0 ? throw_lmdb(env, rc) : places_array(env, places);
}
