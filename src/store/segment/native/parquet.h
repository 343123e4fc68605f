// A flush's rows as a Parquet file: the types that the parts of the encoder share. The format is in
// src/format/segment.md; parquet-encoder-js.ts must write the same rows. No size that came from a
// client decides an allocation: every buffer is bounded by the stream's bytes or by a constant
// below, and the file's sink refuses bytes that do not fit.
//
//   parquet.cpp         arguments of the call, row groups
//   parquet_values.cpp  scans of a chunk before its pages: nulls, statistics, dictionary
//   parquet_pages.cpp   pages of a chunk: levels, values, compression
//   parquet_footer.cpp  schema, chunks, key-value metadata
#pragma once
#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace parquet {

// Bytes of a page of texts before compression: no more than LZ4's small table takes, which is an
// eighth faster. Content that repeats from text to text is stored once a page, so pages of large
// texts hold up to PAGE_TEXTS or PAGE_BYTES_MAX.
constexpr size_t PAGE_BYTES = 1 << 16, PAGE_BYTES_MAX = 1 << 18, PAGE_TEXTS = 128;
// Rows of a page at most: a multiple of eight, so that a page's bits begin with a byte of the
// bitmap.
constexpr size_t PAGE_ROWS = 20480;
// Bytes of a dictionary at most, its lengths included. It has at most a quarter as many values as
// there are rows.
constexpr size_t DICTIONARY_BYTES = 64 << 10;
// Longer texts have no statistics.
constexpr size_t STATISTICS_BYTES = 64;

// The numbers that parquet-encoder.ts uses for a schema's types.
enum Type { BOOLEAN, STRING, FLOAT, DOUBLE, INT8, INT16, INT32, INT64, DATE, TIMESTAMP, JSON };
enum Flags { OPTIONAL = 1, STATISTICS = 2, DICTIONARY = 4 };
enum Encoding { PLAIN = 0, RLE = 3, RLE_DICTIONARY = 8 };
enum Codec { UNCOMPRESSED = 0, LZ4_RAW = 7 };

struct Text {
  const uint8_t* data;
  size_t size;
};

// Texts of some rows that stay in their batch.
struct Piece {
  size_t end;           // the row behind the last one
  const uint8_t* data;  // of the first one
  int32_t begin;        // the column's offset there
};

// One column of the stream, in Arrow's layout. A null row has no bytes where the width varies, else
// zeros.
struct Column {
  Type type;
  int flags;
  const uint8_t* validity;  // null where no row is null
  const int32_t* offsets;   // of STRING and JSON: rows + 1, ascending from 0
  const uint8_t* data;      // null where the texts are in pieces
  Text name;
  std::vector<Piece> pieces;

  bool is_text() const { return type == STRING || type == JSON; }
  bool has(size_t row) const { return validity == nullptr || ((validity[row >> 3] >> (row & 7)) & 1); }
  size_t size(size_t row) const { return static_cast<size_t>(offsets[row + 1] - offsets[row]); }
  Text text(size_t row) const { return {data + offsets[row], size(row)}; }
};

// Writes bytes one after the other into memory of a known size. It drops bytes that do not fit, and
// sets `is_full`.
struct Sink {
  uint8_t* begin;
  uint8_t* at;
  uint8_t* end;
  bool is_full = false;

  Sink(uint8_t* memory, size_t size) : begin(memory), at(memory), end(memory + size) {}
  size_t size() const { return static_cast<size_t>(at - begin); }
  size_t room() const { return static_cast<size_t>(end - at); }
  void put(const void* from, size_t count) {
    if (count > room()) is_full = true;
    else if (count > 0) std::memcpy(at, from, count), at += count;
  }
  void byte(uint8_t value) { put(&value, 1); }
};

// Memory for one page, reused by the next one. Without memory the process ends.
struct Scratch {
  uint8_t* memory = nullptr;
  size_t size = 0;

  Scratch() = default;
  Scratch(const Scratch&) = delete;
  ~Scratch() { std::free(memory); }
  uint8_t* of(size_t count) {
    if (count > size) {
      std::free(memory);
      memory = static_cast<uint8_t*>(std::malloc(size = count + count / 8));
      if (memory == nullptr) std::abort();
    }
    return memory;
  }
};

// Smallest and largest value of a chunk as Parquet stores them.
struct Statistics {
  uint64_t nulls = 0;
  bool has_min_max = false;
  uint8_t min[STATISTICS_BYTES], max[STATISTICS_BYTES];
  uint8_t min_size = 0, max_size = 0;
};

// The distinct texts of a chunk, and which of them each row holds.
class Dictionary {
 public:
  // False when the rows [from, to) have too many or too long values. The members must not be used
  // then.
  bool build(const Column& column, size_t from, size_t to);
  std::vector<Text> values;
  std::vector<uint16_t> indexes;  // of the rows that are not null, in order
  size_t bytes = 0;               // of the values, each with its length

 private:
  struct Slot {
    uint32_t hash, entry;  // entry: index into `values` + 1, or 0 where empty
  };
  uint32_t find(Text text, size_t values_max);
  std::vector<Slot> slots_;
};

// One column chunk, as the footer describes it.
struct Chunk {
  int64_t offset = 0, dictionary_offset = -1, data_offset = 0;
  int64_t bytes = 0, uncompressed_bytes = 0, rows = 0;
  int pages = 0;
  Codec codec = UNCOMPRESSED;
  Statistics statistics;
};

// Memory that is reused from chunk to chunk.
struct Workspace {
  Scratch page, dictionary_page;
  Dictionary dictionary;
};

uint64_t count_nulls(const Column& column, size_t from, size_t to);
// Smallest and largest value of rows [from, to), or of a dictionary's values where there is one.
void put_min_max(Statistics& statistics, const Column& column, size_t from, size_t to, const Dictionary* dictionary);

Chunk put_chunk(Sink& file, Workspace& workspace, const Column& column, size_t from, size_t to);
void put_footer(Sink& file, const std::vector<Column>& columns, const std::vector<Text>& pairs, size_t rows,
                const std::vector<Chunk>& chunks);

// parquetEncode(stream, out, words, text, lengths[, batches, requests, kinds, keep]): writes the
// file into `out` and returns its bytes, or 0 where it does not fit.
//   words    rows, rows of a row group (a multiple of 8), then per column: type, flags, places of
//            validity, offsets and data in the stream (-1: none). JSON without flags and without
//            data is the payload column of the winning rows of `batches`.
//   text     names of the columns, then key, value, key, value, … of the footer, without gaps
//   lengths  bytes of each text
napi_value encode(napi_env env, napi_callback_info info);

}  // namespace parquet
