// The pages of one column chunk: a dictionary page where there is a dictionary, and data pages
// (version 1).
#include <algorithm>

#include "lz4.h"
#include "parquet.h"
#include "parquet_thrift.h"

namespace parquet {

namespace {

// Values in PLAIN encoding; a null row has none.

// The first row of the next page; a multiple of eight, or `end`.
size_t page_end(const Column& column, size_t row, size_t end) {
  const size_t last = end - row > PAGE_ROWS ? row + PAGE_ROWS : end;
  if (!column.is_text()) return last;
  size_t next = row;
  const auto fits = [&](size_t to) {
    const size_t bytes = static_cast<size_t>(column.offsets[to] - column.offsets[row]) + 4 * (to - row);
    return bytes <= (to - row > PAGE_TEXTS ? PAGE_BYTES : PAGE_BYTES_MAX);
  };
  // A page has at least eight rows, even where these alone pass the limit.
  do next = last - next > 8 ? next + 8 : last;
  while (next < last && fits(last - next > 8 ? next + 8 : last));
  return next;
}

// Bytes that the values of [from, to) take at most.
size_t plain_bytes_max(const Column& column, size_t from, size_t to) {
  const size_t rows = to - from;
  if (column.is_text()) return static_cast<size_t>(column.offsets[to] - column.offsets[from]) + 4 * rows;
  switch (column.type) {
    case BOOLEAN: return rows / 8 + 1;
    case DOUBLE: case INT64: case TIMESTAMP: return 8 * rows;
    default: return 4 * rows;
  }
}

// `Stored` is the physical type: 8- and 16-bit integers are stored in 32.
template <class Value, class Stored>
uint8_t* put_numbers(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  const Value* values = reinterpret_cast<const Value*>(column.data);
  if (!has_nulls && sizeof(Value) == sizeof(Stored)) {
    std::memcpy(to, values + from, (end - from) * sizeof(Value));
    return to + (end - from) * sizeof(Value);
  }
  for (size_t row = from; row < end; row++) {
    const Stored stored = static_cast<Stored>(values[row]);
    std::memcpy(to, &stored, sizeof stored);  // where the row is null the next one takes its place
    to += !has_nulls || column.has(row) ? sizeof stored : 0;
  }
  return to;
}

uint8_t* put_bits(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  if (!has_nulls) {
    const size_t bytes = (end - from + 7) / 8;
    std::memcpy(to, column.data + from / 8, bytes);
    return to + bytes;
  }
  unsigned byte = 0, filled = 0;
  for (size_t row = from; row < end; row++) {
    if (!column.has(row)) continue;
    byte |= ((column.data[row >> 3] >> (row & 7)) & 1u) << filled;
    if (++filled == 8) *to++ = static_cast<uint8_t>(byte), byte = filled = 0;
  }
  if (filled > 0) *to++ = static_cast<uint8_t>(byte);
  return to;
}

uint8_t* put_text(uint8_t* to, Text text) {
  const uint32_t size = static_cast<uint32_t>(text.size);
  std::memcpy(to, &size, 4);
  if (size > 0) std::memcpy(to + 4, text.data, size);
  return to + 4 + size;
}

uint8_t* put_texts(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  if (column.data != nullptr) {
    for (size_t row = from; row < end; row++)
      if (!has_nulls || column.has(row)) to = put_text(to, column.text(row));
    return to;
  }
  const Piece* piece = std::upper_bound(column.pieces.data(), column.pieces.data() + column.pieces.size(), from,
                                        [](size_t row, const Piece& one) { return row < one.end; });
  for (size_t row = from; row < end; piece++)
    for (const size_t last = std::min(end, piece->end); row < last; row++)
      to = put_text(to, {piece->data + (column.offsets[row] - piece->begin), column.size(row)});
  return to;
}

// `to` has room for plain_bytes_max and 8 bytes more.
uint8_t* put_plain(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  switch (column.type) {
    case BOOLEAN: return put_bits(to, column, from, end, has_nulls);
    case FLOAT: return put_numbers<float, float>(to, column, from, end, has_nulls);
    case DOUBLE: return put_numbers<double, double>(to, column, from, end, has_nulls);
    case INT8: return put_numbers<int8_t, int32_t>(to, column, from, end, has_nulls);
    case INT16: return put_numbers<int16_t, int32_t>(to, column, from, end, has_nulls);
    case INT32: case DATE: return put_numbers<int32_t, int32_t>(to, column, from, end, has_nulls);
    case INT64: case TIMESTAMP: return put_numbers<int64_t, int64_t>(to, column, from, end, has_nulls);
    case STRING: case JSON: return put_texts(to, column, from, end, has_nulls);
  }
  return to;
}

// Parquet's hybrid of runs and bit packing, for definition levels and for a dictionary's indexes.

uint8_t* put_varint(uint8_t* to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<uint8_t>(value | 0x80);
  *to++ = static_cast<uint8_t>(value);
  return to;
}

// Packs eight values of `width` bits, at most 16, into `width` bytes. It overwrites 16 bytes.
uint8_t* put_eight(uint8_t* to, const uint16_t* values, unsigned width) {
  unsigned __int128 bits = 0;
  for (unsigned i = 0; i < 8; i++) bits |= static_cast<unsigned __int128>(values[i]) << (i * width);
  std::memcpy(to, &bits, sizeof bits);
  return to + width;
}

// Shorter runs of equal values are packed: they cost more than they save.
constexpr size_t RUN_MIN = 24;
// Groups of eight in one packed stretch, whose header is one byte.
constexpr size_t GROUPS_MAX = 63;

size_t levels_bytes_max(size_t rows) { return 4 + 10 + rows / 8 + 1; }

// Writes the levels of rows [from, end) as RLE. The level of a null is 0.
uint8_t* put_levels(uint8_t* to, const Column& column, size_t from, size_t end, size_t nulls) {
  const size_t rows = end - from;
  uint8_t* at = to + 4;
  if (nulls == 0 || nulls == rows) {
    at = put_varint(at, static_cast<uint64_t>(rows) << 1);
    *at++ = nulls == 0 ? 1 : 0;
  } else {
    // A bitmap is the packed form already; `from` is a multiple of eight, and the bits behind the
    // last row are zero.
    const size_t groups = (rows + 7) / 8;
    at = put_varint(at, groups << 1 | 1);
    std::memcpy(at, column.validity + from / 8, groups);
    at += groups;
  }
  const uint32_t length = static_cast<uint32_t>(at - to - 4);
  std::memcpy(to, &length, 4);
  return at;
}

size_t indexes_bytes_max(size_t count, unsigned width) {
  const size_t groups = count / 8 + 1;
  // Each group at worst a stretch of its own with a header, and room for put_eight's last 16 bytes.
  return groups * (width + 1) + (count / RUN_MIN + 1) * 8 + 32;
}

// Writes indexes as the hybrid of runs and bit packing.
uint8_t* put_indexes(uint8_t* to, const uint16_t* indexes, size_t count, unsigned width) {
  uint8_t* header = nullptr;  // of the packed stretch that is open
  size_t groups = 0;
  for (size_t i = 0; i < count;) {
    size_t run = 1;
    while (i + run < count && indexes[i + run] == indexes[i]) run++;
    if (run >= RUN_MIN) {
      if (header != nullptr) *header = static_cast<uint8_t>(groups << 1 | 1), header = nullptr;
      to = put_varint(to, static_cast<uint64_t>(run) << 1);
      *to++ = static_cast<uint8_t>(indexes[i]);
      if (width > 8) *to++ = static_cast<uint8_t>(indexes[i] >> 8);
      i += run;
      continue;
    }
    if (header == nullptr) header = to++, groups = 0;
    uint16_t eight[8] = {};
    // Fewer than 8 are left only at the end, where zeros fill up.
    const size_t taken = count - i < 8 ? count - i : 8;
    std::memcpy(eight, indexes + i, taken * sizeof *eight);
    to = put_eight(to, eight, width);
    i += taken;
    if (++groups == GROUPS_MAX) *header = static_cast<uint8_t>(groups << 1 | 1), header = nullptr;
  }
  if (header != nullptr) *header = static_cast<uint8_t>(groups << 1 | 1);
  return to;
}

// Pages.

constexpr size_t PAGE_HEADER_BYTES = 64;  // more than any page header takes
// Bytes of a chunk's first page that are compressed as a trial.
constexpr size_t TRY_BYTES = 64 << 10;

struct Page {
  const uint8_t* data;
  size_t bytes;
  size_t values;  // nulls included
};

unsigned index_width(size_t distinct) {
  unsigned width = 1;
  while ((size_t{1} << width) < distinct) width++;
  return width;
}

size_t put_header(uint8_t* to, const Page& page, size_t stored, bool is_dictionary, Encoding encoding) {
  Sink sink(to, PAGE_HEADER_BYTES);
  Thrift header(sink);
  header.begin();
  header.i32(1, is_dictionary ? 2 : 0);
  header.i32(2, static_cast<int32_t>(page.bytes));
  header.i32(3, static_cast<int32_t>(stored));
  header.begin(is_dictionary ? 7 : 5);
  header.i32(1, static_cast<int32_t>(page.values));
  header.i32(2, encoding);
  if (!is_dictionary) header.i32(3, RLE), header.i32(4, RLE);
  header.end();
  header.end();
  return sink.size();
}

// Compresses the page's bytes to their final place, if their header is as long as that of a page of
// a quarter of the size.
void put_page(Sink& file, Chunk& chunk, const Page& page, bool is_dictionary, Encoding encoding) {
  if (file.room() < PAGE_HEADER_BYTES) return void(file.is_full = true);
  uint8_t header[PAGE_HEADER_BYTES];
  size_t stored = page.bytes, header_bytes;
  if (chunk.codec == LZ4_RAW) {
    const size_t guessed = put_header(header, page, page.bytes / 4, is_dictionary, encoding);
    uint8_t* body = file.at + guessed;
    const size_t room = file.room() - PAGE_HEADER_BYTES;
    const int capacity = static_cast<int>(room < INT32_MAX ? room : INT32_MAX);
    const int packed = LZ4_compress_default(reinterpret_cast<const char*>(page.data), reinterpret_cast<char*>(body),
                                            static_cast<int>(page.bytes), capacity);
    if (packed <= 0) return void(file.is_full = true);
    stored = static_cast<size_t>(packed);
    header_bytes = put_header(header, page, stored, is_dictionary, encoding);
    if (header_bytes != guessed) std::memmove(file.at + header_bytes, body, stored);
    std::memcpy(file.at, header, header_bytes);
    file.at += header_bytes + stored;
  } else {
    header_bytes = put_header(header, page, stored, is_dictionary, encoding);
    file.put(header, header_bytes);
    file.put(page.data, page.bytes);
  }
  chunk.uncompressed_bytes += static_cast<int64_t>(header_bytes + page.bytes);
}

// Random ids and packed indexes hardly shrink. They stay uncompressed, so that readers do not pay
// for nothing.
Codec codec_for(const Column& column, const Page& page, const Sink& file) {
  if (column.type == JSON) return LZ4_RAW;
  const size_t tried = page.bytes < TRY_BYTES ? page.bytes : TRY_BYTES, wanted = tried - tried / 16;
  if (tried < 64 || file.room() < tried) return UNCOMPRESSED;
  const int packed = LZ4_compress_default(reinterpret_cast<const char*>(page.data), reinterpret_cast<char*>(file.at),
                                          static_cast<int>(tried), static_cast<int>(wanted));
  return packed > 0 ? LZ4_RAW : UNCOMPRESSED;
}

Page dictionary_page(const Dictionary& dictionary, Scratch& scratch) {
  uint8_t *begin = scratch.of(dictionary.bytes + 8), *at = begin;
  for (const Text text : dictionary.values) at = put_text(at, text);
  return {begin, static_cast<size_t>(at - begin), dictionary.values.size()};
}

// The rows [from, to) as a page: levels if the column is optional, then indexes or values.
// `index` counts the dictionary's indexes that the earlier pages took; it moves on.
Page data_page(Workspace& workspace, const Column& column, size_t from, size_t to, const Dictionary* dictionary,
               size_t& index) {
  const size_t nulls = count_nulls(column, from, to), values = to - from - nulls;
  const unsigned width = dictionary == nullptr ? 0 : index_width(dictionary->values.size());
  const size_t body = dictionary == nullptr ? plain_bytes_max(column, from, to) : indexes_bytes_max(values, width) + 1;
  uint8_t *begin = workspace.page.of(levels_bytes_max(to - from) + body + 8), *at = begin;
  if (column.flags & OPTIONAL) at = put_levels(at, column, from, to, nulls);
  if (dictionary != nullptr) {
    *at++ = static_cast<uint8_t>(width);
    at = put_indexes(at, dictionary->indexes.data() + index, values, width);
    index += values;
  } else {
    at = put_plain(at, column, from, to, nulls > 0);
  }
  return {begin, static_cast<size_t>(at - begin), to - from};
}

}  // namespace

Chunk put_chunk(Sink& file, Workspace& workspace, const Column& column, size_t from, size_t to) {
  Chunk chunk;
  chunk.offset = static_cast<int64_t>(file.size());
  chunk.rows = static_cast<int64_t>(to - from);
  chunk.statistics.nulls = count_nulls(column, from, to);
  const bool has_dictionary = (column.flags & DICTIONARY) && workspace.dictionary.build(column, from, to);
  const Dictionary* dictionary = has_dictionary ? &workspace.dictionary : nullptr;
  if (column.flags & STATISTICS) put_min_max(chunk.statistics, column, from, to, dictionary);
  size_t index = 0;
  for (size_t row = from; row < to && !file.is_full; chunk.pages++) {
    const size_t next = dictionary == nullptr ? page_end(column, row, to) : (to - row > PAGE_ROWS ? row + PAGE_ROWS : to);
    const Page page = data_page(workspace, column, row, next, dictionary, index);
    if (row == from) {
      chunk.codec = codec_for(column, page, file);
      if (dictionary != nullptr) {
        chunk.dictionary_offset = chunk.offset;
        put_page(file, chunk, dictionary_page(*dictionary, workspace.dictionary_page), true, PLAIN);
      }
      chunk.data_offset = static_cast<int64_t>(file.size());
    }
    put_page(file, chunk, page, false, dictionary == nullptr ? PLAIN : RLE_DICTIONARY);
    row = next;
  }
  chunk.bytes = static_cast<int64_t>(file.size()) - chunk.offset;
  return chunk;
}

}  // namespace parquet
