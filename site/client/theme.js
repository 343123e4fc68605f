/* Before the page is drawn: the theme that was chosen earlier, and that scripts run. */
{
  const root = document.documentElement
  root.classList.add('scripted')
  const chosen = (() => {
    try {
      return localStorage.getItem('weir-theme')
    } catch {
      return null // a browser that keeps nothing follows the system
    }
  })()
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen
}
