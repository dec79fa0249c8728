/** The page for an address that leads nowhere. */

/** Says so, with a way on. */
export function NotFound() {
  return (
    <>
      <div class="top">
        <h1>No such page</h1>
      </div>
      <p class="verdict">
        Nothing is at this address. <a href="/">Go to the overview</a>
      </p>
    </>
  );
}
