/** The page. `API_URL` and `POOL` are set by the bundler (../main.ts). */
import {
  AccessTokenProvider,
  Counter,
  DataGrid,
  FilterProvider,
  Leaderboard,
  PieChart,
  SimpleFilter,
  ThemeProvider,
  TimeGrainPicker,
  TimeRangePicker,
  TimeSeries,
  useFilters,
} from '@propeldata/ui-kit'
import { createRoot } from 'react-dom/client'

const dataPool = { name: POOL }
/** What every query of the kit needs. The token comes from the AccessTokenProvider. */
const common = { propelApiUrl: API_URL, timeZone: 'UTC' }
const orders = { count: { dataPool } }
const customers = { countDistinct: { dataPool, dimension: { columnName: 'customer' } } }
const basket = { custom: { dataPool, expression: 'SUM(price * quantity) / COUNT()' } }

/** A token of the page's own server, which keeps the secret. The kit asks again every 55 minutes. */
const fetchToken = async () => (await fetch('/token')).text()

/** Bars are compared by their length, so their axis begins at zero. */
function fromZero(config) {
  const { scales } = config.options
  return {
    ...config,
    options: { ...config.options, scales: { ...scales, y: { ...scales.y, beginAtZero: true } } },
  }
}

function Panel({ title, children }) {
  return (
    <section className="panel">
      <h2>{title}</h2>
      {children}
    </section>
  )
}

/**
 * Offers the values of three months, whatever the page shows: the kit forgets the text in the field
 * when it asks for values again.
 */
function Filter({ column, label }) {
  const timeRange = { relative: 'LAST_N_DAYS', n: 91 }
  const query = { ...common, columnName: column, maxValues: 20, timeRange }
  return <SimpleFilter query={query} autocompleteProps={{ placeholder: label }} />
}

/**
 * The kit's grid stays on its page when a filter changes, and would show what the new rows have
 * there. With another key it begins at the first page.
 */
function LatestOrders() {
  const { filterSql, timeRange } = useFilters()
  const columns = ['ordered_at', 'order_id', 'city', 'product', 'price']
  return (
    <DataGrid
      key={JSON.stringify([filterSql, timeRange])}
      query={{ ...common, dataPool, columns }}
      paginationProps={{ defaultPageSize: 10 }}
      showRowCount
    />
  )
}

/** The panels take time range, granularity and filters from the FilterProvider around them. */
function Dashboard() {
  return (
    <>
      <div className="bar">
        <h1>Orders</h1>
        <Filter column="city" label="All cities" />
        <Filter column="product" label="All products" />
        <TimeGrainPicker />
        <TimeRangePicker defaultValue={{ value: 'last-30-days' }} />
      </div>
      <div className="row four">
        <Panel title="Orders">
          <Counter query={{ ...common, metric: orders }} localize />
        </Panel>
        <Panel title="Revenue">
          <Counter query={{ ...common, metric: 'revenue' }} prefixValue="€ " localize />
        </Panel>
        <Panel title="Customers">
          <Counter query={{ ...common, metric: customers }} localize />
        </Panel>
        <Panel title="Average order">
          <Counter query={{ ...common, metric: basket }} prefixValue="€ " localize />
        </Panel>
      </div>
      <div className="row two">
        <Panel title="Revenue over time">
          <TimeSeries query={{ ...common, metric: 'revenue' }} variant="bar" chartConfigProps={fromZero} />
        </Panel>
        <Panel title="Orders of each city over time">
          <TimeSeries
            query={{ ...common, metric: orders, groupBy: ['city'] }}
            variant="line"
            maxGroupBy={6}
          />
        </Panel>
      </div>
      <div className="row two">
        <Panel title="Products by revenue">
          <Leaderboard
            query={{ ...common, metric: 'revenue', dimensions: [{ columnName: 'product' }], rowLimit: 8 }}
            variant="table"
            tableProps={{ hasValueBar: true, localize: true, prefixValue: '€ ' }}
          />
        </Panel>
        <Panel title="Orders by city">
          <PieChart
            query={{ ...common, metric: orders, dimensions: [{ columnName: 'city' }], rowLimit: 4 }}
            variant="doughnut"
            chartProps={{ legendPosition: 'right' }}
          />
        </Panel>
      </div>
      <Panel title="Latest orders">
        <LatestOrders />
      </Panel>
    </>
  )
}

createRoot(document.getElementById('page')).render(
  <ThemeProvider appearance="light" accentColor="indigo">
    <AccessTokenProvider fetchToken={fetchToken}>
      <FilterProvider
        defaultDataPool={dataPool}
        defaultTimeRange={{ relative: 'LAST_N_DAYS', n: 30 }}
        defaultGranularity="DAY"
      >
        <Dashboard />
      </FilterProvider>
    </AccessTokenProvider>
  </ThemeProvider>,
)
