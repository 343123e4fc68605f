// The kernel without N-API: requests in a slab become outcomes, event errors and one batch. Only
// the thread that made it may use it.
#pragma once
#include "builders.h"
#include "walk.h"

namespace weir {

class Kernel;

// The rows of one call of parse. All kernels of a thread share them, because they grow to several
// MiB, there may be thousands of kernels, and one of them works at a time.
struct Rows {
  const Kernel* owner = nullptr;  // whose rows they are
  std::vector<Builder> columns;   // as many as the widest schema had; the owner uses the first ones
  Builder key{Kind::binary};
  PayloadBuilder payload;
  Buffer<int32_t> outcomes, errors;
};

class Kernel {
 public:
  explicit Kernel(PoolSchema schema);

  // Bytes that a new kernel takes, about. Only an escaped key of an event can add to them later.
  size_t bytes() const { return bytes_; }

  // Parses `requests` rows of `table` (request_words each). Returns the caller's mistake or null.
  // The slab must not change until write_batch has returned: it copies the payloads from there.
  const char* parse(const uint8_t* slab, size_t slab_bytes, const double* table, size_t requests);

  // Results of the last call of parse.
  const Buffer<int32_t>& outcomes() const { return rows_.outcomes; }
  const Buffer<int32_t>& errors() const { return rows_.errors; }
  size_t batch_bytes() const { return layout_->bytes(); }
  // A batch is written once, and before another kernel of the thread parses: later the slab and the
  // rows may hold other bytes.
  bool has_batch() const { return layout_ != nullptr && rows_.owner == this; }
  void write_batch(uint8_t* out) {
    layout_->write(out);
    layout_.reset();
  }

 private:
  // The request that is being parsed.
  struct Request {
    const uint8_t* body;
    size_t bytes;
    bool all_or_nothing;
    int64_t received_at_micros;
    const uint8_t* bits;  // null for all events
    size_t bits_bytes;
    int32_t index;
  };

  const char* read_request(const uint8_t* slab, size_t slab_bytes, const double* row, Request* request) const;
  const char* parse_request(const Request& request);
  const char* parse_document(const Request& request, uint32_t* events, bool* undecided);
  bool parse_event(const Request& request, uint32_t event, uint32_t& place, uint32_t depth);
  int32_t set_row(const Request& request, int32_t* column);
  void take_rows();
  void reserve_rows(size_t rows);
  void truncate(uint32_t rows);
  void report(const Request& request, uint32_t event, int32_t word, int32_t column);

  const PoolSchema schema_;
  const Paths paths_;
  Walk walk_;
  Document& document_;  // the thread's; it holds the current body, and nothing between calls
  Rows& rows_;          // the thread's
  size_t bytes_;
  uint32_t row_ = 0;  // the row that is written next
  size_t rows_max_ = 0;
  std::unique_ptr<Layout> layout_;
};

}  // namespace weir
