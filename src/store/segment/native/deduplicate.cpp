// Deduplicates a flush: which rows win, the sorted run of their keys, and how large the new
// segment's columns get. The specification is assembler-js.ts; both give equal bytes.
//
//   W-7  Among equal keys the highest sequence wins, then the later row: the last in key order.
//        With a version column the highest version since the key's last delete comes before both.
#include <algorithm>
#include <cstring>

#include "../../../format/native/key_run.h"
#include "../../../parse/native/key.h"
#include "../../../util/native/typed_array.h"
#include "assembler.h"

namespace segment {

namespace {

struct Key {
  const uint8_t* bytes;
  uint32_t length;
  bool is_delete;
  double sequence;
};

// Returns a number below 0, 0 or above 0, as memcmp does. A key is before the longer keys that
// begin with it.
int compare_keys(const KeyItem& a, const KeyItem& b, const std::vector<Key>& keys) {
  if (a.high != b.high) return a.high < b.high ? -1 : 1;
  if (a.low != b.low) return a.low < b.low ? -1 : 1;
  const Key &x = keys[a.row], &y = keys[b.row];
  const uint32_t common = x.length < y.length ? x.length : y.length;
  if (common > KEY_ITEM_BYTES) {
    const int order = std::memcmp(x.bytes + KEY_ITEM_BYTES, y.bytes + KEY_ITEM_BYTES, common - KEY_ITEM_BYTES);
    if (order != 0) return order;
  }
  return x.length < y.length ? -1 : x.length > y.length ? 1 : 0;
}

// Rows of a run on average below which merging is no faster than sorting (bench/flushes.ts).
constexpr size_t RUN_ROWS = 10;

struct Run {
  size_t from, to;
};

// By key, then sequence, then row. No two items are equal in this order.
struct Before {
  const std::vector<Key>& keys;

  bool operator()(const KeyItem& a, const KeyItem& b) const {
    const int order = compare_keys(a, b, keys);
    if (order != 0) return order < 0;
    const double x = keys[a.row].sequence, y = keys[b.row].sequence;
    return x != y ? x < y : a.row < b.row;
  }
};

// Sorts by natural runs: it finds stretches of rows that already ascend with one comparison a row,
// puts them in the order of their first keys, and merges those that overlap. Where there are too
// many runs, it sorts all items as a whole.
class Sorter {
 public:
  Sorter(std::vector<KeyItem>& items, const std::vector<Key>& keys) : items_(items), before_{keys} {}

  void sort() {
    if (!find_runs()) return std::sort(items_.begin(), items_.end(), before_);
    if (runs_.size() == 1) return;
    spare_.resize(items_.size());
    order_runs();
    while (runs_.size() > 1) merge_pairs();
  }

 private:
  // False, early, when runs are short.
  bool find_runs() {
    const size_t runs_max = items_.size() / RUN_ROWS + 1;
    for (size_t from = 0; from < items_.size();) {
      if (runs_.size() == runs_max) return false;
      size_t to = from + 1;
      while (to < items_.size() && !before_(items_[to], items_[to - 1])) to++;
      runs_.push_back({from, to});
      from = to;
    }
    return true;
  }

  // Copies the runs into the order of their first items. Runs that do not overlap become one.
  void order_runs() {
    std::sort(runs_.begin(), runs_.end(),
              [this](const Run& a, const Run& b) { return before_(items_[a.from], items_[b.from]); });
    std::vector<Run> ordered;
    size_t at = 0;
    for (const Run& run : runs_) {
      const bool follows = at > 0 && !before_(items_[run.from], spare_[at - 1]);
      std::copy(items_.begin() + run.from, items_.begin() + run.to, spare_.begin() + at);
      if (!follows) ordered.push_back({at, at});
      at += run.to - run.from;
      ordered.back().to = at;
    }
    items_.swap(spare_);
    runs_.swap(ordered);
  }

  // Merges each pair of neighbours. Items before the second run's first item are copied without a
  // comparison.
  void merge_pairs() {
    size_t merged = 0;
    for (size_t r = 0; r < runs_.size(); r += 2) {
      const auto at = [this](size_t index) { return items_.begin() + static_cast<ptrdiff_t>(index); };
      const auto a = at(runs_[r].from), a_end = at(runs_[r].to);
      const size_t end = r + 1 < runs_.size() ? runs_[r + 1].to : runs_[r].to;
      const auto b = a_end, b_end = at(end);
      const auto to = spare_.begin() + (a - items_.begin());
      const auto overlap = b == b_end ? a_end : std::upper_bound(a, a_end, *b, before_);
      std::merge(overlap, a_end, b, b_end, std::copy(a, overlap, to), before_);
      runs_[merged++] = {runs_[r].from, end};
    }
    runs_.resize(merged);
    items_.swap(spare_);
  }

  std::vector<KeyItem>& items_;
  const Before before_;
  std::vector<KeyItem> spare_;
  std::vector<Run> runs_;
};

void read_keys(const std::vector<Entry>& entries, std::vector<Key>& keys, std::vector<KeyItem>& items) {
  for (const Entry& entry : entries) {
    const Column column = entry.column(1);
    uint32_t row = 0;
    for (size_t r = 0; r < entry.request_count; r++) {
      const double sequence = entry.requests[entry_words * r];
      const uint32_t rows = static_cast<uint32_t>(entry.requests[entry_words * r + 2]);
      for (uint32_t k = 0; k < rows; k++, row++) {
        const uint8_t* bytes = column.data + column.offsets[row];
        const uint32_t length = static_cast<uint32_t>(column.offsets[row + 1] - column.offsets[row]);
        items.push_back(key_item(bytes, length, static_cast<uint32_t>(keys.size())));
        keys.push_back({bytes, length, entry.is_delete, sequence});
      }
    }
  }
}

// Leaves only the winners in `items`, and sets `keep` for the winning rows of posts.
void keep_winners(std::vector<KeyItem>& items, const std::vector<Key>& keys, uint8_t* keep) {
  size_t winners = 0;
  for (size_t i = 0; i < items.size(); i++) {
    if (i + 1 < items.size() && compare_keys(items[i], items[i + 1], keys) == 0) continue;
    items[winners++] = items[i];
    keep[items[i].row] = keys[items[i].row].is_delete ? 0 : 1;
  }
  items.resize(winners);
}

// The versions of all rows, VERSION_BYTES each, and the deletes that winners follow.
struct Ranks {
  std::vector<uint8_t> versions;
  // Parallel to the winners: the sequence of the delete that a row follows, NO_DELETE without one.
  std::vector<double> deleted_at;

  const uint8_t* version(const KeyItem& item) const { return versions.data() + VERSION_BYTES * item.row; }
};

constexpr double NO_DELETE = -1;

template <class Value>
Value value_at(const Column& column, uint32_t row) {
  Value value;
  std::memcpy(&value, column.data + sizeof(Value) * row, sizeof(Value));
  return value;
}

// Returns false where the column has no versions.
bool write_version(const Column& column, uint32_t row, uint8_t* out) {
  switch (column.kind) {
    case I8: return weir::write_key_int64(out, value_at<int8_t>(column, row)), true;
    case I16: return weir::write_key_int64(out, value_at<int16_t>(column, row)), true;
    case I32: return weir::write_key_int64(out, value_at<int32_t>(column, row)), true;
    case I64: return weir::write_key_int64(out, value_at<int64_t>(column, row)), true;
    case F32: return weir::write_key_double(out, value_at<float>(column, row)), true;
    case F64: return weir::write_key_double(out, value_at<double>(column, row)), true;
    default: return false;
  }
}

// Returns false where batches of posts have no such column, or it has no versions.
bool read_versions(const std::vector<Entry>& entries, size_t rows, int32_t column_index, Ranks& ranks) {
  ranks.versions.resize(VERSION_BYTES * rows);
  uint8_t* out = ranks.versions.data();
  for (const Entry& entry : entries) {
    if (!entry.is_delete && column_index >= entry.columns) return false;
    for (uint32_t row = 0; row < entry.rows; row++, out += VERSION_BYTES)
      if (!entry.is_delete && !write_version(entry.column(column_index), row, out)) return false;
  }
  return true;
}

// Leaves only the winners in `items`: of each key the last row of the highest version since its
// last delete, or that delete where no row follows. Sets `keep` for the winning rows of posts.
void keep_highest(std::vector<KeyItem>& items, const std::vector<Key>& keys, Ranks& ranks, uint8_t* keep) {
  size_t winners = 0;
  for (size_t from = 0, to = 0; from < items.size(); from = to) {
    size_t winner = from;
    double deleted_at = NO_DELETE;
    for (to = from; to < items.size() && compare_keys(items[from], items[to], keys) == 0; to++) {
      const bool follows_delete = keys[items[winner].row].is_delete;
      if (keys[items[to].row].is_delete) {
        winner = to;
        deleted_at = keys[items[to].row].sequence;
      } else if (follows_delete ||
                 std::memcmp(ranks.version(items[to]), ranks.version(items[winner]), VERSION_BYTES) >= 0) {
        winner = to;
      }
    }
    const bool is_delete = keys[items[winner].row].is_delete;
    keep[items[winner].row] = is_delete ? 0 : 1;
    ranks.deleted_at.push_back(is_delete ? NO_DELETE : deleted_at);
    items[winners++] = items[winner];
  }
  items.resize(winners);
}

// Writes the key run (src/format/key-run.ts) and the sequences of its deletes in order. `ranks` is
// null without a version column.
napi_value write_run(napi_env env, const std::vector<KeyItem>& items, const std::vector<Key>& keys, const uint8_t* keep,
                     const Ranks* ranks, std::vector<double>& deletes) {
  std::vector<int32_t> places(keys.size());
  int32_t place = 0;
  for (size_t row = 0; row < keys.size(); row++) places[row] = keep[row] ? place++ : -1;
  size_t bytes = 0;
  for (const KeyItem& item : items) bytes += keys[item.row].length;
  napi_value buffer;
  KeyRunWriter run;
  if (!run.open(env, items.size(), bytes, &buffer, ranks != nullptr)) return nullptr;
  for (size_t i = 0; i < items.size(); i++) {
    const Key& key = keys[items[i].row];
    const int32_t row = places[items[i].row];
    const double deleted_at = ranks == nullptr ? NO_DELETE : ranks->deleted_at[i];
    if (row < 0) deletes.push_back(key.sequence);
    if (deleted_at != NO_DELETE) deletes.push_back(deleted_at);
    run.add(key.bytes, key.length, deleted_at == NO_DELETE ? row : after_delete(row));
    // A delete has zeros.
    if (ranks != nullptr) run.add_version(ranks->version(items[i]));
  }
  return buffer;
}

uint32_t count_nulls(const uint8_t* validity, uint32_t from, uint32_t to) {
  uint32_t nulls = 0;
  for (uint32_t row = from; row < to; row++) nulls += !((validity[row >> 3] >> (row & 7)) & 1);
  return nulls;
}

// Sums nulls and bytes of the winning rows, two numbers per batch column. The key is no column of
// the segment.
void sum_columns(const std::vector<Entry>& entries, const uint8_t* keep, std::vector<double>& sums) {
  each_run(entries, keep, [&](const Entry& entry, uint32_t from, uint32_t to) {
    for (int32_t c = 0; c < entry.columns && 2 * static_cast<size_t>(c) < sums.size(); c++) {
      if (c == 1) continue;
      const Column column = entry.column(c);
      if (column.nulls > 0)
        sums[2 * c] += to - from == entry.rows ? column.nulls : count_nulls(column.validity, from, to);
      if (column.kind == BINARY) sums[2 * c + 1] += column.offsets[to] - column.offsets[from];
    }
  });
}

}  // namespace

// segmentDeduplicate(batches, requests, kinds, keyed, columns, version): {keep, keys, deletes,
// sums}. `version` is the version column's place in a batch of posts, -1 without one.
napi_value deduplicate(napi_env env, napi_callback_info info) {
  size_t count = 6;
  napi_value arguments[6], result, keep_buffer, keep_array;
  std::vector<Entry> entries;
  bool keyed = false;
  uint32_t columns = 0;
  int32_t version = -1;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 6 || !read_entries(env, arguments, entries)) return nullptr;
  napi_get_value_bool(env, arguments[3], &keyed);
  napi_get_value_uint32(env, arguments[4], &columns);
  napi_get_value_int32(env, arguments[5], &version);
  size_t total = 0;
  for (const Entry& entry : entries) total += entry.rows;
  void* memory = nullptr;
  napi_create_arraybuffer(env, total, &memory, &keep_buffer);
  napi_create_typedarray(env, napi_uint8_array, total, keep_buffer, 0, &keep_array);
  uint8_t* keep = static_cast<uint8_t*>(memory);
  std::vector<double> deletes, sums(2 * columns, 0);
  napi_create_object(env, &result);
  if (keyed) {
    std::vector<Key> keys;
    std::vector<KeyItem> items;
    keys.reserve(total);
    items.reserve(total);
    read_keys(entries, keys, items);
    Sorter(items, keys).sort();
    Ranks ranks;
    const bool is_ranked = version >= 0;
    if (is_ranked && !read_versions(entries, total, version, ranks)) {
      napi_throw_type_error(env, nullptr, "segmentDeduplicate: no column of versions stands there");
      return nullptr;
    }
    if (is_ranked) keep_highest(items, keys, ranks, keep);
    else keep_winners(items, keys, keep);
    napi_set_named_property(env, result, "keys",
                            write_run(env, items, keys, keep, is_ranked ? &ranks : nullptr, deletes));
  } else if (total > 0) {
    std::memset(keep, 1, total);
  }
  sum_columns(entries, keep, sums);
  napi_set_named_property(env, result, "keep", keep_array);
  napi_set_named_property(env, result, "deletes", new_array(env, napi_float64_array, deletes.data(), deletes.size()));
  napi_set_named_property(env, result, "sums", new_array(env, napi_float64_array, sums.data(), sums.size()));
  return result;
}

}  // namespace segment
