/** SDL: metric queries. Metric forms that are not built yet are here to be refused by name. */
export const QUERY_SDL = /* GraphQL */ `
  extend type Query {
    counter(input: CounterInput!): CounterResponse
  }

  input CounterInput {
    metricId: ID @deprecated
    metricName: String @deprecated
    metric: MetricInput
    timeRange: TimeRangeInput
    timeZone: String
    filters: [FilterInput!] @deprecated
    filterSql: String
  }

  type CounterResponse {
    value: String
    query: QueryInfo!
  }

  input DataPoolInput {
    id: ID
    name: String
  }

  input DimensionInput {
    columnName: String!
  }

  input MetricInput {
    id: ID
    name: String
    custom: CustomMetricQueryInput
    count: CountMetricQueryInput
    sum: SumMetricQueryInput
    average: AverageMetricQueryInput
    min: MinMetricQueryInput
    max: MaxMetricQueryInput
    countDistinct: CountDistinctMetricQueryInput
  }

  input CountMetricQueryInput {
    dataPool: DataPoolInput!
  }

  input SumMetricQueryInput {
    dataPool: DataPoolInput!
    measure: DimensionInput!
  }

  input AverageMetricQueryInput {
    dataPool: DataPoolInput!
    measure: DimensionInput!
  }

  input MinMetricQueryInput {
    dataPool: DataPoolInput!
    measure: DimensionInput!
  }

  input MaxMetricQueryInput {
    dataPool: DataPoolInput!
    measure: DimensionInput!
  }

  input CountDistinctMetricQueryInput {
    dataPool: DataPoolInput!
    dimension: DimensionInput!
  }

  input CustomMetricQueryInput {
    dataPool: DataPoolInput!
    expression: String!
  }

  type Filter {
    column: String!
    operator: FilterOperator!
    value: String
    and: [Filter!]
    or: [Filter!]
  }

  input FilterInput {
    column: String!
    operator: FilterOperator!
    value: String
    and: [FilterInput!]
    or: [FilterInput!]
  }

  enum FilterOperator {
    EQUALS
    NOT_EQUALS
    GREATER_THAN
    GREATER_THAN_OR_EQUAL_TO
    LESS_THAN
    LESS_THAN_OR_EQUAL_TO
    IS_NULL
    IS_NOT_NULL
    LIKE
    NOT_LIKE
  }

  input TimeRangeInput {
    timestamp: String
    relative: RelativeTimeRange
    n: Int
    start: DateTime
    stop: DateTime
  }

  enum RelativeTimeRange {
    THIS_HOUR
    TODAY
    THIS_WEEK
    THIS_MONTH
    THIS_QUARTER
    THIS_YEAR
    PREVIOUS_HOUR
    YESTERDAY
    PREVIOUS_WEEK
    PREVIOUS_MONTH
    PREVIOUS_QUARTER
    PREVIOUS_YEAR
    NEXT_HOUR
    TOMORROW
    NEXT_WEEK
    NEXT_MONTH
    NEXT_QUARTER
    NEXT_YEAR
    LAST_N_MINUTES
    LAST_N_HOURS
    LAST_N_DAYS
    LAST_N_WEEKS
    LAST_N_MONTHS
    LAST_N_QUARTERS
    LAST_N_YEARS
    LAST_15_MINUTES @deprecated
    LAST_30_MINUTES @deprecated
    LAST_HOUR @deprecated
    LAST_4_HOURS @deprecated
    LAST_12_HOURS @deprecated
    LAST_24_HOURS @deprecated
    LAST_7_DAYS @deprecated
    LAST_30_DAYS @deprecated
    LAST_90_DAYS @deprecated
    LAST_3_MONTHS @deprecated
    LAST_6_MONTHS @deprecated
    LAST_YEAR @deprecated
    LAST_2_YEARS @deprecated
    LAST_5_YEARS @deprecated
  }

  type QueryInfo {
    id: ID!
    createdAt: DateTime!
    createdBy: String!
    modifiedAt: DateTime!
    modifiedBy: String!
    bytesProcessed: String!
    durationInMilliseconds: Int!
    recordsProcessed: String!
    resultingBytes: Int!
    resultingRecords: Int!
    booster: Booster
    propeller: Propeller
    status: QueryStatus!
    type: QueryType!
    subtype: QuerySubtype
    sql: String!
  }

  type Booster implements Node {
    id: ID!
  }

  enum Propeller {
    P1_X_SMALL
    P1_SMALL
    P1_MEDIUM
    P1_LARGE
    P1_X_LARGE
  }

  enum QueryStatus {
    COMPLETED
    ERROR
    TIMED_OUT
  }

  enum QueryType {
    METRIC
    STATS
    REPORT
    RECORDS
    RECORDS_BY_UNIQUE_ID
    SELECT
    SQL
    TOP_VALUES
  }

  enum QuerySubtype {
    COUNTER
    TIME_SERIES
    LEADERBOARD
  }
`
