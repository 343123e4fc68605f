// Which rows of segments are not deleted, as a function of DuckDB's: the predicate of live rows in
// ../duckdb/live-rows.ts. The specification is the anti-join there.
//
//   keepDeletedRows(parts)    one segment's deleted rows, copied and sorted     ──► id of a set
//   dropDeletedRows(set)
//   beginLiveRows(sets)       the sets of one query, by position of their files ──► id of a view
//   endLiveRows(view)
//   liveRowsHeld()            the bytes of all sets in memory, and the number of views
//
// A view shares its sets, so a set can be dropped while queries use it. The last user frees it. A
// call of the function shares its view in the same way, because a thread of DuckDB may still run
// when the end of its query is told here. The next call then fails, which nobody sees any more.
//
// DuckDB loads the file of this module a second time, as an extension (duckdb_c_api.cpp). The
// system's loader gives it the same library, so both sides share the sets.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"
#include "duckdb_c_api.h"

namespace query {

namespace {

std::atomic<size_t> bytes_held{0};

// Row numbers of one segment, ascending.
struct DeletedRows {
  const std::vector<uint32_t> rows;

  explicit DeletedRows(std::vector<uint32_t> sorted) : rows(std::move(sorted)) { bytes_held += bytes(); }
  ~DeletedRows() { bytes_held -= bytes(); }
  size_t bytes() const { return rows.capacity() * sizeof rows[0]; }
};
using View = std::vector<std::shared_ptr<const DeletedRows>>;

// Values by ids, which are never used twice.
template <class Value>
class Registry {
 public:
  // Returns the id.
  double add(std::shared_ptr<const Value> value) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    values_.emplace(++last_, std::move(value));
    return static_cast<double>(last_);
  }
  std::shared_ptr<const Value> find(uint64_t id) {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = values_.find(id);
    return found == values_.end() ? nullptr : found->second;
  }
  void remove(uint64_t id) {
    std::shared_ptr<const Value> removed;  // declared first: it is freed after the lock
    std::unique_lock<std::shared_mutex> lock(mutex_);
    auto found = values_.find(id);
    if (found == values_.end()) return;
    removed = std::move(found->second);
    values_.erase(found);
  }
  size_t size() {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    return values_.size();
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<const Value>> values_;
  uint64_t last_ = 0;
};

// Never freed: threads of DuckDB may run while the process exits.
Registry<DeletedRows>& sets = *new Registry<DeletedRows>;
Registry<View>& views = *new Registry<View>;

// True for rows that follow each other, as a scan without a filter gives them.
bool are_consecutive(const uint64_t* rows, size_t count) {
  uint64_t differences = 0;
  for (size_t i = 0; i < count; i++) differences |= rows[i] - rows[0] - i;
  return differences == 0 && rows[0] <= rows[count - 1];
}

void mark_consecutive(const std::vector<uint32_t>& deleted, uint64_t from, size_t count, bool* live) {
  auto at = std::lower_bound(deleted.begin(), deleted.end(), from);
  for (; at != deleted.end() && *at - from < count; ++at) live[*at - from] = false;
}

// The rows may have any order. Ascending ones, as a scan with a filter gives them, are fast.
void mark_others(const std::vector<uint32_t>& deleted, const uint64_t* rows, size_t count, bool* live) {
  auto begin = deleted.begin(), at = begin;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && rows[i] < rows[i - 1]) at = begin;
    // Steps of 1, 2, 4 and so on, because the next deleted row is often near.
    auto low = at;
    for (size_t step = 1; at != deleted.end() && *at < rows[i]; step *= 2) {
      low = at;
      at += static_cast<ptrdiff_t>(std::min<size_t>(step, static_cast<size_t>(deleted.end() - at)));
    }
    at = std::lower_bound(low, at, rows[i]);
    if (at != deleted.end() && *at == rows[i]) live[i] = false;
  }
}

// True if one of the first `count` values is null. Without any null there may be no bits.
bool has_null(Handle vector, Index count) {
  const uint64_t* valid = duckdb.vector_get_validity(vector);
  if (valid == nullptr) return false;
  for (Index i = 0; i < count; i += 64) {
    const uint64_t wanted = count - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (count - i)) - 1;
    if ((valid[i >> 6] & wanted) != wanted) return true;
  }
  return false;
}

// is_live(view, file_index, file_row_number). The C API makes all vectors flat. DuckDB may call it
// from several threads, for rows in any order and of several files. An error fails the query,
// because a row without an answer would be missing in it.
void is_live(Handle info, Handle input, Handle output) {
  const Index count = duckdb.data_chunk_get_size(input);
  if (count == 0) return;
  Handle arguments[3];
  for (Index i = 0; i < 3; i++) {
    arguments[i] = duckdb.data_chunk_get_vector(input, i);
    if (has_null(arguments[i], count))
      return duckdb.scalar_function_set_error(info, "live rows: a row without a number");
  }
  // The view is a literal of the statement: all of its values are equal.
  const uint64_t id = *static_cast<const uint64_t*>(duckdb.vector_get_data(arguments[0]));
  const uint64_t* files = static_cast<const uint64_t*>(duckdb.vector_get_data(arguments[1]));
  const uint64_t* rows = static_cast<const uint64_t*>(duckdb.vector_get_data(arguments[2]));
  bool* live = static_cast<bool*>(duckdb.vector_get_data(output));
  const std::shared_ptr<const View> view = views.find(id);
  if (view == nullptr) return duckdb.scalar_function_set_error(info, "live rows: the query has ended");
  std::fill_n(live, count, true);
  for (Index from = 0, to; from < count; from = to) {
    for (to = from + 1; to < count && files[to] == files[from];) to++;
    if (files[from] >= view->size()) return duckdb.scalar_function_set_error(info, "live rows: an unknown file");
    const std::vector<uint32_t>& deleted = (*view)[files[from]]->rows;
    if (are_consecutive(rows + from, to - from))
      mark_consecutive(deleted, rows[from], to - from, live + from);
    else
      mark_others(deleted, rows + from, to - from, live + from);
  }
}

}  // namespace

bool register_is_live(Handle connection) {
  Handle function = duckdb.create_scalar_function();
  Handle boolean = duckdb.create_logical_type(DUCKDB_BOOLEAN);
  Handle parameters[] = {duckdb.create_logical_type(DUCKDB_BIGINT), duckdb.create_logical_type(DUCKDB_UBIGINT),
                         duckdb.create_logical_type(DUCKDB_BIGINT)};
  duckdb.scalar_function_set_name(function, "_service_is_live");
  for (Handle parameter : parameters) duckdb.scalar_function_add_parameter(function, parameter);
  duckdb.scalar_function_set_return_type(function, boolean);
  duckdb.scalar_function_set_special_handling(function);  // it looks for nulls itself
  duckdb.scalar_function_set_function(function, is_live);
  const bool is_good = duckdb.register_scalar_function(connection, function) == DUCKDB_SUCCESS;
  for (Handle& parameter : parameters) duckdb.destroy_logical_type(&parameter);
  duckdb.destroy_logical_type(&boolean);
  duckdb.destroy_scalar_function(&function);
  return is_good;
}

namespace {

napi_value number_of(napi_env env, double value) {
  napi_value number;
  return napi_create_double(env, value, &number) == napi_ok ? number : nullptr;
}

// The one argument of a call, or null, which N-API refuses everywhere.
napi_value argument_of(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument = nullptr;
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  return argument;
}

bool id_of(napi_env env, napi_value value, uint64_t& id) {
  double number = 0;
  if (napi_get_value_double(env, value, &number) != napi_ok) return false;
  if (!(number >= 1 && number <= 9007199254740991)) return false;
  id = static_cast<uint64_t>(number);
  return true;
}

napi_value keep_deleted_rows(napi_env env, napi_callback_info info) {
  napi_value parts = argument_of(env, info);
  uint32_t count = 0;
  bool is_good = napi_get_array_length(env, parts, &count) == napi_ok;
  std::vector<Array<uint32_t>> arrays(count);
  size_t size = 0;
  for (uint32_t i = 0; i < count && is_good; i++) {
    napi_value part;
    is_good = napi_get_element(env, parts, i, &part) == napi_ok && read_array(env, part, napi_uint32_array, arrays[i]);
    size += arrays[i].size;
  }
  if (!is_good) {
    napi_throw_type_error(env, nullptr, "keepDeletedRows takes a list of Uint32Arrays");
    return nullptr;
  }
  std::vector<uint32_t> rows;
  rows.reserve(size);
  for (const Array<uint32_t>& array : arrays) rows.insert(rows.end(), array.data, array.data + array.size);
  if (!std::is_sorted(rows.begin(), rows.end())) std::sort(rows.begin(), rows.end());
  return number_of(env, sets.add(std::make_shared<const DeletedRows>(std::move(rows))));
}

napi_value drop_deleted_rows(napi_env env, napi_callback_info info) {
  uint64_t id = 0;
  if (id_of(env, argument_of(env, info), id)) sets.remove(id);
  return nullptr;
}

napi_value begin_live_rows(napi_env env, napi_callback_info info) {
  napi_value list = argument_of(env, info);
  uint32_t count = 0;
  bool is_good = napi_get_array_length(env, list, &count) == napi_ok;
  auto view = std::make_shared<View>();
  for (uint32_t i = 0; i < count && is_good; i++) {
    napi_value item;
    uint64_t id = 0;
    is_good = napi_get_element(env, list, i, &item) == napi_ok && id_of(env, item, id);
    if (is_good) view->push_back(sets.find(id));
    is_good = is_good && view->back() != nullptr;
  }
  if (!is_good) {
    napi_throw_type_error(env, nullptr, "beginLiveRows takes a list of sets that are kept");
    return nullptr;
  }
  return number_of(env, views.add(std::move(view)));
}

napi_value end_live_rows(napi_env env, napi_callback_info info) {
  uint64_t id = 0;
  if (id_of(env, argument_of(env, info), id)) views.remove(id);
  return nullptr;
}

napi_value live_rows_held(napi_env env, napi_callback_info info) {
  napi_value held;
  if (napi_create_object(env, &held) != napi_ok) return nullptr;
  napi_set_named_property(env, held, "bytes", number_of(env, static_cast<double>(bytes_held.load())));
  napi_set_named_property(env, held, "views", number_of(env, static_cast<double>(views.size())));
  return held;
}

}  // namespace

}  // namespace query

void init_live_rows(napi_env env, napi_value exports) {
  add_function(env, exports, "keepDeletedRows", query::keep_deleted_rows);
  add_function(env, exports, "dropDeletedRows", query::drop_deleted_rows);
  add_function(env, exports, "beginLiveRows", query::begin_live_rows);
  add_function(env, exports, "endLiveRows", query::end_live_rows);
  add_function(env, exports, "liveRowsHeld", query::live_rows_held);
}
